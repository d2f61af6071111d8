"""The position in a loader, exactly. It knows no window, no journal and no checkpoint folder.

feed             where a run is in its loader: what every kind of loader's feed does
choose_feed      which feed fits a loader; and that of a list of batches
map_style        DataLoader over a map-style dataset, its indices and its workers
samplers         what samplers hold, and the number that shuffles
stateful_loader  loaders that know their own place, and what their workers draw
read_again       anything else, by reading up to its place; and numbers that count epochs in it
known_loaders    what is known of other people's loaders
random_calls     calls that draw random numbers, made again
mersenne         how far a generator has come, as a number
generators       generators wherever they are held, and all that may be drawn from
signature        what must be the same on resume, as plain values
fingerprint      a short hash of values, or of what a batch holds
trial            a loader read whole, and again from every place in it
"""

from gradkeeper.engine.data.choose_feed import Unstated, feed_of
from gradkeeper.engine.data.feed import Feed
from gradkeeper.engine.data.samplers import next_epoch
from gradkeeper.engine.data.signature import difference, length_of

__all__ = ["Feed", "Unstated", "difference", "feed_of", "length_of", "next_epoch"]
