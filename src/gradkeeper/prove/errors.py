"""What keeps a proof from being made."""


class ProveError(Exception):
    """Nothing can be said about the script: the message says why, and what to do."""
