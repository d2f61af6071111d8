"""What ends a command with a message and exit code 2."""


class CliError(Exception):
    """Could not run: the message says what happened, where, and what to do."""
