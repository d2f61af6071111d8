"""One thing at a time, done beside the caller."""

import threading
from collections.abc import Callable


class Background:
    """What it is given must not raise. Python waits for it before it ends."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None

    def run(self, action: Callable[[], None]) -> None:
        """After the last one has ended."""
        self.join()
        thread = threading.Thread(target=action, name=self._name)
        try:
            thread.start()
        except RuntimeError:
            # Python is ending, and starts no more threads.
            action()
        else:
            self._thread = thread

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
