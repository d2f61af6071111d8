"""Standard streams that nobody may read any more, as in `gradkeeper check . | head -1`.

Left to itself, Python complains of them at the very end, and exits with 120.
"""

import os
import sys
from contextlib import suppress
from typing import TextIO

from gradkeeper.cli.errors import CliError


def tell(text: str) -> None:
    """To standard output. If its reader has gone, the exit code still says what was found."""
    _write(text, sys.stdout)


def complain(text: str) -> None:
    """To standard error, if that is possible: there is nowhere else to say that it is not."""
    with suppress(CliError):
        _write(f"{text}\n", sys.stderr)


def settle() -> bool:
    """Writes what is still held back; False if it cannot be written, which is said."""
    try:
        # The real ones: a script that was run may have left something else in their place.
        _write("", sys.__stdout__)
        _write("", sys.__stderr__)
    except CliError as error:
        complain(f"gradkeeper: {error}")
        return False
    return True


def _write(text: str, stream: TextIO | None) -> None:
    # None where the caller has closed it, as `>&-` does.
    if stream is None or stream.closed:
        return
    try:
        stream.write(_writable(text, stream))
        stream.flush()
    except OSError as error:
        # It ends nowhere from now on, with what it still holds.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError):
            raise CliError(f"the output cannot be written: {error.strerror}") from None


def _writable(text: str, stream: TextIO) -> str:
    """As far as the stream knows its letters: a terminal may know ASCII only."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
