"""`python -m gradkeeper`, which torchrun needs."""

import sys

from gradkeeper.cli import main

if __name__ == "__main__":
    sys.exit(main())
