"""What training, watching, checkpoints and editors need beside the standard library."""

import shlex

TORCH = ("torch>=2.6", "numpy", "tqdm")
"""The extra `torch` of pyproject.toml."""

# By their own names: whoever reads this has gradkeeper already, from a clone or a wheel.
INSTALL_TORCH = f"pip install {shlex.join(TORCH)}"

LSP = ("pygls>=2",)
"""The extra `lsp`."""
INSTALL_LSP = f"pip install {shlex.join(LSP)}"
