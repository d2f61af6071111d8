"""The global random generators: Python's, NumPy's, torch's on every device that is in use."""

import random
import sys
from typing import Any

import torch

State = dict[str, Any]


def rng_state() -> State:
    state: State = {"python": random.getstate(), "torch": torch.get_rng_state()}
    # A module that nobody has imported has drawn nothing.
    if "numpy" in sys.modules:
        import numpy

        state["numpy"] = numpy.random.get_state()
    for name in _accelerators():
        state[name] = _states_on(name)
    return state


def restore_rng(state: State | None) -> None:
    """None: those of a rank that there was not before."""
    if state is None:
        return
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        import numpy

        numpy.random.set_state(state["numpy"])
    for name in ("cuda", "xpu", "mps"):
        if name in state:
            _restore_on(name, state[name])


def _accelerators() -> list[str]:
    """Those in use: asking one that is not would start it."""
    found = [name for name in ("cuda", "xpu") if getattr(torch, name).is_initialized()]
    if torch.backends.mps.is_available():
        found.append("mps")
    return found


def _states_on(name: str) -> list[torch.Tensor]:
    if name == "mps":
        return [torch.mps.get_rng_state()]
    return list(getattr(torch, name).get_rng_state_all())


def _restore_on(name: str, states: list[torch.Tensor]) -> None:
    if name == "mps":
        torch.mps.set_rng_state(states[0])
        return
    getattr(torch, name).set_rng_state_all(states)
