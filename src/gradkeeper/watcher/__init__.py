"""The watcher: sees what torch does to gradients while a job runs, and tells the books.

session    `with Watch(...)`                 keeper   one thread's events
taps/      where torch is tapped             journal  posts them, and knows a steady state
credits    what a backward reaches           hands    what was done without torch's functions
cohorts    parameters that move together     owners   optimizers and what nobody owns
rounds     loops without a loader            feed     loops with one
"""

from gradkeeper.watcher.session import Watch, ignore
from gradkeeper.watcher.taps.call import FindingError

__all__ = ["FindingError", "Watch", "ignore"]
