"""What each event does to the books: one function per kind of event, by subject.

ownership    whose accounts these are: opened, parted, adopted, out of sight, closed
data         where in the data the loop is
gradients    what comes into .grad, is done to it there, and is thrown away
stepping     those who spend, and what goes with them: steps, scalers, schedulers, updates by hand
checkpoints  state that leaves for a checkpoint, and comes back from one
"""
