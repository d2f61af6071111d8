"""Random number generators: all of the process at once, or any one of any kind.

`state` and `restore` are for the generators that every program has, on the host and on devices.
`read` and `write` are for one generator: what is read can be compared with ==, sent between
processes and kept in a checkpoint. `own_state` is what it says itself.
"""

import random
import sys
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    import numpy

Drawn = Any
"""The state of one generator: bytes, numbers, strings, and tuples or dicts of them."""

# All of the process


def state() -> dict[str, Any]:
    """Python's, NumPy's, torch's on every device that is in use."""
    found: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    # A module that nobody has imported has drawn nothing.
    if "numpy" in sys.modules:
        import numpy

        found["numpy"] = numpy.random.get_state()
    for name in _accelerators():
        found[name] = _states_on(name)
    return found


def restore(saved: dict[str, Any]) -> None:
    random.setstate(saved["python"])
    torch.set_rng_state(saved["torch"])
    if "numpy" in saved:
        import numpy

        numpy.random.set_state(saved["numpy"])
    for name in ("cuda", "xpu", "mps"):
        if name in saved:
            _restore_on(name, saved[name])


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


# One of any kind


def is_generator(thing: Any) -> bool:
    # Drawing from the system leaves nothing to put back.
    if isinstance(thing, random.SystemRandom):
        return False
    return isinstance(thing, torch.Generator | random.Random) or _is_numpy(thing)


def shared() -> dict[str, Any]:
    """The generators of the process, that anything may draw from."""
    found = {"python": random._inst, "torch": torch.default_generator}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found["numpy"] = numpy.random.mtrand._rand
    return found


def readings(things: Mapping[str, Any]) -> dict[str, tuple[str, Drawn]]:
    """Kind and state of each that is a generator."""
    return {
        name: (kind(thing), read(thing)) for name, thing in things.items() if is_generator(thing)
    }


def read(generator: Any) -> Drawn:
    state = own_state(generator)
    if isinstance(generator, torch.Generator):
        return state.numpy().tobytes()
    if isinstance(generator, random.Random):
        version, words, gauss = state
        return (version, array("I", words).tobytes(), gauss)
    return _frozen(state)


def write(generator: Any, drawn: Drawn) -> None:
    if isinstance(generator, torch.Generator):
        state: Any = torch.frombuffer(bytearray(drawn), dtype=torch.uint8)
    elif isinstance(generator, random.Random):
        version, words, gauss = drawn
        state = (version, tuple(array("I", words)), gauss)
    else:
        state = _thawed(drawn)
    set_own_state(generator, state)


def own_state(generator: Any) -> Any:
    """As it gives its state itself: a tensor, a tuple or a dict."""
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, random.Random):
        return generator.getstate()
    return _numpy_state(generator)


def set_own_state(generator: Any, state: Any) -> None:
    if isinstance(generator, torch.Generator):
        generator.set_state(state)
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def kind(generator: Any) -> str:
    """Enough to make another one of it."""
    match generator:
        case torch.Generator():
            return f"torch {generator.device}"
        case random.Random():
            return "python"
    if hasattr(generator, "bit_generator"):
        return f"numpy {type(generator.bit_generator).__name__}"
    return "numpy RandomState"


def made(kind: str) -> Any:
    family, _, name = kind.partition(" ")
    if family == "torch":
        return torch.Generator(device=name)
    if family == "python":
        return random.Random()
    import numpy

    if name == "RandomState":
        return numpy.random.RandomState()
    return numpy.random.Generator(getattr(numpy.random, name)())


def _is_numpy(thing: Any) -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return False
    return isinstance(thing, numpy.random.Generator | numpy.random.RandomState)


def _numpy_state(generator: Any) -> Mapping[str, Any]:
    if hasattr(generator, "bit_generator"):
        state: Mapping[str, Any] = generator.bit_generator.state
        return state
    legacy: Mapping[str, Any] = generator.get_state(legacy=False)
    return legacy


def _frozen(value: Any) -> Any:
    """Arrays as bytes, so that == says whether two states are the same."""
    if isinstance(value, Mapping):
        return {name: _frozen(part) for name, part in value.items()}
    if hasattr(value, "tobytes"):
        return (value.dtype.str, value.tobytes())
    return value


def _thawed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _thawed(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return _array(*value)
    return value


def _array(dtype: str, content: bytes) -> "numpy.ndarray[Any, Any]":
    import numpy

    return numpy.frombuffer(content, dtype=dtype).copy()
