"""gradkeeper: every gradient a loss produces should reach the weights exactly once."""

__version__ = "0.1.0"

__all__ = ["__version__"]
