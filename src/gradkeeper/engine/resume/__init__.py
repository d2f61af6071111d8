"""A run that another process can go on with, bit for bit.

keeper      when to save              returning    the way back to where it was saved
run         what is kept              itinerary    in which loop, or behind which, the program is
owners      models, optimizers, ...   open_window  a window in mid-way, with its gradients
modules     one model's state         loaders      the loaders' positions
optimizers  one optimizer's           rng          the global random generators
tracked     what the user names       differences  why a checkpoint does not fit
folder      where checkpoints are
parts       what each rank saves      sharded      tensors that ranks hold in shards
moving      onto more or fewer ranks
"""
