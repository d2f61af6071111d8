"""A trap: whoever pickles or unpickles anything fails."""

import _pickle
import pickle
from typing import NoReturn

import numpy
import pytest


def refuse(*_: object, **__: object) -> NoReturn:
    raise AssertionError("pickle was used")


class Refused:
    """A class, because torch derives from these when it is imported further."""

    def __init__(self, *_: object, **__: object) -> None:
        refuse()


def forbid_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    # Imported by the first step of an optimizer, it would keep a trap as base of its own classes.
    import torch._dynamo

    for module in (pickle, _pickle):
        for name in ("load", "loads", "dump", "dumps"):
            monkeypatch.setattr(module, name, refuse)
        for name in ("Pickler", "Unpickler"):
            monkeypatch.setattr(module, name, Refused)
    for name in ("_Pickler", "_Unpickler"):
        monkeypatch.setattr(pickle, name, Refused)
    for name in ("load", "save"):
        monkeypatch.setattr(torch, name, refuse)
        monkeypatch.setattr(numpy, name, refuse)
