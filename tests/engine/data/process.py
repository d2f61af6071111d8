"""One process of a run: goes on from a checkpoint, if there is one, for so many batches."""

import random
import sys
from pathlib import Path

import numpy
import torch

from gradkeeper.checkpoint.codec import decode, encode
from gradkeeper.engine.data import feed_of
from tests.engine.data.interrupting import generators, seed_all, set_generators
from tests.engine.data.loaders import MAPPED


def main(place: Path, case: str, workers: int, batches: int) -> None:
    """Its batches as lines; a folder `place` holds the position between processes."""
    torch.set_num_threads(1)
    seed_all(0)
    feed = feed_of(MAPPED[case](None, num_workers=workers))
    if place.exists():
        saved = torch.load(place, weights_only=False)
        coming = feed.resume(decode(saved["tree"], saved["tensors"]))
        set_generators(saved["generators"])
    else:
        coming = feed.begin(0)
    for _, batch in zip(range(batches), coming, strict=False):
        drawn = random.random() + float(numpy.random.rand()) + torch.rand(()).item()
        print([one.hex() for one in batch.flatten().tolist()], drawn.hex())
    encoded = encode(feed.state())
    parts = {"tree": encoded.tree, "tensors": encoded.tensors, "generators": generators()}
    torch.save(parts, place)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
