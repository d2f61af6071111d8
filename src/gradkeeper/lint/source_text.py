"""A source file as text: its lines as Python counts them, and its encoding."""

import re

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
"""str.splitlines would also break at form feeds and at U+2028, where Python goes on."""


def lines_of(text: str) -> list[str]:
    """The lines with their ends."""
    return LINE.findall(text)


def decode(raw: bytes) -> tuple[str, str]:
    """The text and its encoding, as its first lines declare it; UTF-8 where they can't be read."""
    import io
    import tokenize

    try:
        encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
        return raw.decode(encoding), encoding
    except (SyntaxError, UnicodeDecodeError):
        return raw.decode("utf-8", "replace"), "utf-8"
