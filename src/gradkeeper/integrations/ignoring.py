"""Which rules a user's words leave out: one way to write them in all integrations."""

from collections.abc import Iterable


def codes_of(words: str | Iterable[str]) -> frozenset[str]:
    """Of codes, names or prefixes, in one string with commas or several; ValueError at a typo."""
    from gradkeeper.lint.config import codes
    from gradkeeper.rules import ALL

    return codes([words] if isinstance(words, str) else words, ALL)
