"""What training, watching and checkpoints need beside the standard library, and how to get it."""

import shlex

TORCH = ("torch>=2.6", "numpy", "tqdm")
"""The extra `torch` of pyproject.toml."""

# By their own names: whoever reads this has gradkeeper already, from a clone or a wheel.
INSTALL_TORCH = f"pip install {shlex.join(TORCH)}"
