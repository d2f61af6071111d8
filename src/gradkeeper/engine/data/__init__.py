"""The position in a loader, exactly. It knows no window, no journal and no checkpoint folder.

feed           where a run is in its loader: what every kind of loader's feed does
map_style      DataLoader over a map-style dataset, its indices and its workers
samplers       what samplers hold, and the number that shuffles
other_loaders  loaders with state_dict, lists, anything else by reading; and which feed fits
replay         calls that draw random numbers, made again
mersenne       how far a generator has come, as a number
generators     generators wherever they are held, and all that may be drawn from
signature      what must be the same on resume
"""

from gradkeeper.engine.data.feed import Feed
from gradkeeper.engine.data.other_loaders import Unstated, feed_of
from gradkeeper.engine.data.samplers import next_epoch
from gradkeeper.engine.data.signature import difference, length_of

__all__ = ["Feed", "Unstated", "difference", "feed_of", "length_of", "next_epoch"]
