"""Lists of names, written as one would say them."""


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())
