"""Copied as `sitecustomize.py` into a folder on PYTHONPATH, so that every Python which the command
starts imports it first. It waits until torch is imported, and only then brings in the witness.

Stands alone: the interpreter it runs in need not have gradkeeper, and most have no use for it.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

ENV = "GRADKEEPER_PROVE"


class AfterTorch(importlib.abc.MetaPathFinder):
    """Calls the witness once torch is there. Importing torch for the script would not be the same:
    scripts set environment variables before they do it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = Announcing(spec.loader)
        return spec


class Announcing(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _call_witness(os.environ[ENV])


def _call_witness(folder: str) -> None:
    try:
        from gradkeeper.prove.witness import begin
    except ImportError as error:
        with open(os.path.join(folder, "blind"), "w", encoding="utf-8") as stream:
            stream.write(f"{sys.executable}: {error}")
        return
    begin(folder)


def _yield_to_the_next() -> None:
    """The sitecustomize that would have been imported without us."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != here]
    ours = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = ours


if __name__ == "sitecustomize" and ENV in os.environ:
    # Each leaves its number: a kill must find them all, whatever session they made their own.
    with open(os.path.join(os.environ[ENV], f"process-{os.getpid()}"), "w"):
        pass
    sys.meta_path.insert(0, AfterTorch())
    _yield_to_the_next()
