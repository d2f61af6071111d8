"""The position in a loader, exactly. It knows no window, no journal and no checkpoint folder.

feed        which of these fits a loader     handing     batches, counted
sampled     DataLoader, map-style            twin        a loader that draws through us
order       its indices, found again         samplers    what samplers hold
worker      what runs in its workers         replay      calls made again
stated      loaders with state_dict          sources     all that is drawn from
indexed     lists of batches                 finding     generators, wherever they are
reading     anything else, by reading        randomness  generators of every kind
shape       what must be the same            telling     what is seen of reading
epochs      the number that shuffles         mersenne    how far a generator has come
"""

from gradkeeper.engine.data.epochs import next_epoch
from gradkeeper.engine.data.feed import Feed, feed_of
from gradkeeper.engine.data.shape import difference, length_of

__all__ = ["Feed", "difference", "feed_of", "length_of", "next_epoch"]
