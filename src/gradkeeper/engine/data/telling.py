"""What a person sees while batches are read once more: a bar in a terminal, else one line."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def reading_again(loader: Any, batches: int) -> Iterator[Callable[[], object]]:
    """Gives what is to be called after each batch."""
    text = (
        f"gradkeeper: reading {batches} batches of {type(loader).__name__} again to find the place"
    )
    if not batches or sys.stderr is None:
        yield lambda: None
    elif sys.stderr.isatty():
        from tqdm import tqdm

        with tqdm(total=batches, desc=text, unit="batch") as bar:
            yield bar.update
    else:
        print(text, file=sys.stderr, flush=True)
        yield lambda: None
