"""Inside the command's processes: writes down what the trainer does, and ends it where planned.

A trainer is a process that builds an optimizer. It is neither a rank above 0 nor forked, so loader
workers are none. Each line of its record is one backward or one step. Its own `backward` calls and
hooks stay as they are: two functions of torch are wrapped, the rest are public hooks.
"""

import atexit
import ctypes
import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any
from weakref import WeakKeyDictionary

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from gradkeeper import rng
from gradkeeper.prove.process import kill_all
from gradkeeper.prove.working_copy import StrayWrites
from gradkeeper.torch_private import LOADER_ITERATOR
from gradkeeper.watcher.names import ModuleMap
from gradkeeper.watcher.patches import replace

FINAL = "final"


def begin(folder: str) -> None:
    """Called once torch is imported, in every Python process of the command."""
    if int(os.environ.get("RANK", "0")) == 0:
        witness = Witness(Path(folder))
        witness.tap()


class Witness:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        self._stream: IO[str] | None = None
        self._here = True
        # Parameters outlive their optimizer: at the end of a script it may be gone.
        self._owned: list[list[torch.Tensor]] = []
        self._number: WeakKeyDictionary[Optimizer, int] = WeakKeyDictionary()
        self._names: list[list[str | None]] = []
        self._batch: str | None = None
        self._inside = 0
        self._steps = 0
        self._micro = 0
        self._backwards = 0
        self._began: str | None = None
        self._outputs = StrayWrites(self._plan["roots"], folder / f"outputs-{os.getpid()}")

    def tap(self) -> None:
        replace(Optimizer, "__init__", self._built)
        replace(torch.autograd, "backward", self._backward)
        replace(LOADER_ITERATOR, "__next__", self._fetched)
        register_optimizer_step_pre_hook(self._step_begins)
        register_optimizer_step_post_hook(self._step_ends)
        replace(torch, "save", self._outputs.saving)
        self._outputs.tap()
        os.register_at_fork(after_in_child=self._leave)
        atexit.register(self._end)

    def _leave(self) -> None:
        self._here = False
        self._outputs.leave()

    # What the process does

    def _built(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def init(optimizer: Optimizer, params: Any, *args: Any, **options: Any) -> None:
            original(optimizer, params, *args, **options)
            if self._here and self._is_trainer():
                self._know(optimizer)

        return init

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(tensors: Any, *args: Any, **options: Any) -> Any:
            # One inside another (checkpointed blocks do that) is part of it.
            if not self._here or self._stream is None or self._backwards:
                return original(tensors, *args, **options)
            self._begin()
            line = self._state() | {"loss": _loss(tensors)}
            self._backwards += 1
            try:
                result = original(tensors, *args, **options)
            finally:
                self._backwards -= 1
            self._micro += 1
            self._write({"kind": "backward", **line})
            self._die_if_planned()
            return result

        return backward

    def _fetched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def fetch(iterator: Any) -> Any:
            batch = original(iterator)
            if self._here:
                self._batch = of_batch(batch)
            return batch

        return fetch

    def _step_begins(self, optimizer: Optimizer, *_: Any) -> None:
        self._inside += 1
        if self._here and self._stream is not None:
            self._begin()

    def _step_ends(self, optimizer: Optimizer, *_: Any) -> None:
        self._inside -= 1
        # A step inside another's, as wrappers make, is that one's own business.
        if self._inside or not self._here or self._stream is None:
            return
        self._know(optimizer)
        self._steps += 1
        self._micro = 0
        rates = [_number(group.get("lr")) for group in optimizer.param_groups]
        self._write({"kind": "step", "weights": self._weights(), "rates": rates})
        self._die_if_planned()

    # What is written down

    def _is_trainer(self) -> bool:
        """Opens the record, if this process may have one."""
        if self._stream is not None:
            return True
        first = os.getppid() == self._plan["parent"]
        wanted = self._plan["trainer"]
        if wanted is not None and wanted != ("command" if first else "below"):
            return False
        if wanted is not None and not self._claim():
            return False
        path = self._folder / f"record-{os.getpid()}.jsonl"
        self._stream = path.open("w", encoding="utf-8", buffering=1)
        self._write({"kind": "start", "trainer": "command" if first else "below"})
        return True

    def _claim(self) -> bool:
        try:
            (self._folder / "trainer").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _know(self, optimizer: Optimizer) -> None:
        parameters = [
            parameter for group in optimizer.param_groups for parameter in group["params"]
        ]
        number = self._number.get(optimizer)
        if number is None:
            number = self._number[optimizer] = len(self._owned)
            self._owned.append(parameters)
            self._names.append(_names(parameters))
        self._owned[number] = parameters

    def _begin(self) -> None:
        """Before the first backward or step: by then, what is resumed has been loaded."""
        if self._began is None:
            self._began = self._weights()
            self._write({"kind": "began", "weights": self._began})

    def _state(self) -> dict[str, Any]:
        gradients = [parameter.grad for owned in self._owned for parameter in owned]
        held = any(
            gradient is not None and bool(dense_part(gradient).any()) for gradient in gradients
        )
        return {
            "step": self._steps,
            "micro": self._micro,
            "weights": self._weights(),
            "optimizer": of_tensors(_inner_state(self._number)),
            "gradients": of_tensors(gradients) if held else None,
            "batch": self._batch,
            "generators": of_generators(),
        }

    def _weights(self) -> str:
        return of_tensors(parameter for owned in self._owned for parameter in owned)

    def _write(self, line: dict[str, Any]) -> None:
        if self._stream is not None:
            self._stream.write(json.dumps(line) + "\n")

    # How it ends

    def _die_if_planned(self) -> None:
        kill = self._plan["kill"]
        if kill is None:
            return
        # How many steps came before this process is told by the weights that it began with.
        base = self._plan["known"].get(self._began, kill["otherwise"])
        if (base + self._steps, self._micro) >= (kill["step"], kill["micro"]):
            self._write({"kind": "killed", "step": self._steps, "micro": self._micro})
            kill_all(self._folder)

    def _end(self) -> None:
        if not self._here or self._stream is None:
            return
        from gradkeeper.checkpoint import Store

        self._begin()
        tensors = [[dense_part(parameter) for parameter in owned] for owned in self._owned]
        everything = [parameter for owned in tensors for parameter in owned]
        Store(self._folder / FINAL).save({"parameters": tensors, "names": self._names})
        whole = of_tensors(everything, budget=None)
        self._write(
            {
                "kind": "end",
                "weights": whole,
            }
        )
        self._stream.close()


def _names(parameters: list[torch.Tensor]) -> list[str | None]:
    modules = ModuleMap()
    modules.learn(parameters, dict(vars(sys.modules["__main__"])))
    return [modules.path(parameter) for parameter in parameters]


def _inner_state(optimizers: WeakKeyDictionary[Optimizer, int]) -> list[torch.Tensor]:
    """Momentum and the like, in the parameters' order."""
    found: list[torch.Tensor] = []
    for optimizer in sorted(optimizers, key=lambda known: optimizers[known]):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                state = optimizer.state.get(parameter, {})
                found += [value for value in state.values() if isinstance(value, torch.Tensor)]
    return found


def _loss(tensors: Any) -> str | None:
    """In full: rounded, two losses might look alike."""
    first = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors), None)
    if first is None or first.numel() != 1:
        return None
    return float(first.detach()).hex()


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


# Fingerprints of tensors, batches and random generators, at a bounded cost. Of more than BUDGET
# elements a sample is taken: enough to recognise a state among those of a run. What the verdict
# stands on is compared whole, elsewhere.

BUDGET = 2**18


def of_tensors(tensors: Iterable[torch.Tensor | None], *, budget: int | None = BUDGET) -> str:
    several = [tensor if tensor is None else dense_part(tensor) for tensor in tensors]
    count = sum(tensor.numel() for tensor in several if tensor is not None)
    stride = 1 if budget is None else max(1, count // budget)
    hashed = hashlib.blake2b(digest_size=8)
    for tensor in several:
        if tensor is None:
            hashed.update(b"none")
            continue
        hashed.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        hashed.update(_memory(tensor.reshape(-1)[::stride]))
    return hashed.hexdigest()


def dense_part(tensor: torch.Tensor) -> torch.Tensor:
    """What this process holds of it, dense."""
    tensor = tensor.detach()
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return tensor


def _memory(flat: torch.Tensor) -> bytes:
    flat = flat.contiguous().cpu()
    return ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size())


def of_batch(batch: Any) -> str | None:
    """None where nothing in it is a tensor, a number or text."""
    tensors: list[torch.Tensor] = []
    words: list[str] = []
    _collect(batch, tensors, words)
    if not tensors and not words:
        return None
    text = hashlib.blake2b("\n".join(words).encode(), digest_size=4).hexdigest()
    return of_tensors(tensors) + text


def _collect(value: Any, tensors: list[torch.Tensor], words: list[str]) -> None:
    match value:
        case torch.Tensor():
            tensors.append(value)
        case str() | bytes() | int() | float():
            words.append(repr(value))
        case Mapping():
            for part in value.values():
                _collect(part, tensors, words)
        case Sequence():
            for part in value:
                _collect(part, tensors, words)


LIBRARIES = {"torch": "torch", "python": "Python", "numpy": "NumPy"}


def of_generators() -> dict[str, str]:
    """The default ones, by library; torch's on all devices together."""
    shared = rng.shared().items()
    found = {LIBRARIES[name]: _of_text(repr(rng.read(generator))) for name, generator in shared}
    states = rng.state()
    devices = [state for name in states if name not in LIBRARIES for state in states[name]]
    if devices:
        found["torch"] += of_tensors(devices)
    return found


def _of_text(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
