"""A run that another process can go on with, bit for bit.

saver         when to save, and how to come back
stateful      what is kept: models, optimizers, schedulers, precision, tracked things
open_window   a window in mid-way, with its gradients
loaders       the loaders' positions
fast_forward  the way back to the place where a checkpoint was saved
run_folder    where checkpoints are
shards        tensors that ranks hold in shards
elastic       onto more or fewer ranks
"""
