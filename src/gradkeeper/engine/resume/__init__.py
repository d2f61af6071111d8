"""A run that another process can go on with, bit for bit.

saver         when to save, and how to come back
stateful      what is kept, by one protocol: models, optimizers, schedulers, precision
kept_state    all of it: owners, tracked things, random numbers, the place; and what differs
open_window   a window in mid-way, with its gradients
fast_forward  where the program is, in its loops and loaders, and the way back there
run_folder    where checkpoints are
weights       leaving with weights, arriving with those of others
shards        tensors that ranks hold in shards
elastic       onto more or fewer ranks
"""
