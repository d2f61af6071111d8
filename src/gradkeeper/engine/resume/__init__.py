"""A run that another process can go on with, bit for bit.

saver         when to save, and how to come back
stateful      what is kept: models, optimizers, schedulers, precision, tracked things
open_window   a window in mid-way, with its gradients
fast_forward  where the program is, in its loops and loaders, and the way back there
run_folder    where checkpoints are
weights       leaving with weights, arriving with those of others
shards        tensors that ranks hold in shards
elastic       onto more or fewer ranks
"""
