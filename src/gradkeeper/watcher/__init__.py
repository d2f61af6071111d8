"""The watcher: sees what torch does to gradients while a job runs, and tells the books.

In the order in which to read them:

session         `with Watch(...)`: the taps in place, a recorder for each thread, what they found
taps            where torch is tapped, and what undoes it
patches         replacing a function for a while, and putting it back
recorder        one thread's watcher: wires the parts, and tells of what concerns none of them
arrivals        where the user's code is: its line, its loop's round, the calls it is inside of
loops           whether a loop went round, by its bytecode: where no loader tells
loaders         what loaders tell: batches, epochs, their order, and where to go on
inner_batches   whether an inner loop's losses come from one batch or from several
lasting_data    which data was there before a round: rows of a dataset are no parts of a batch
accounts        the accounts that events speak of: opened, split, cleared; one thread for each
gradients       cohorts of parameters that move together, and what was last seen of each gradient
backwards       what a backward credits
loss_graph      what the graph of a loss tells: how it was made, what it reaches
kept_graphs     totals that hold on to the graphs of losses whose backward is done
steps           which optimizer's step is under way, and what it spends
zeros           gradients cleared
effects         what these do to accounts, and what must hold for it to be done again, as values
fast_path       a steady loop: what comes next is known, and is done again
event_log       where events go: posted, or only counted where they repeat themselves
manual_changes  what was done without torch's own functions
loaded_tensors  tensors that were loaded: gradients that come from a checkpoint are known by them
saved_state     state that was saved or restored
optimizers      who owns what: optimizers as they are built and used, and what nobody owns
search          finds optimizers and modules: in variables, or among all objects
names           names that the user would recognise, of variables and of parameters
measures        losses and norms, for those who ask
gradient_sync   whether a backward exchanged gradients between ranks
replicas        weights that ranks should hold alike, as far as this rank knows them
ranks           several ranks: brought together at the end, and compared
"""

from gradkeeper.watcher.session import Watch, ignore
from gradkeeper.watcher.taps.call import FindingError

__all__ = ["FindingError", "Watch", "ignore"]
