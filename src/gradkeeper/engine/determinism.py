"""What stands in the way of bit for bit: settings, another machine than the checkpoint's, or a step
that does not repeat itself. It speaks of what it looked at, and of nothing else.
"""

import copy
import os
import platform
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gradkeeper import rng
from gradkeeper.checkpoint.compare import numbers_apart
from gradkeeper.engine.errors import EngineError, SetupError
from gradkeeper.engine.owner import Owner, device_of

if TYPE_CHECKING:
    from gradkeeper.engine.resume.kept_state import KeptState

# Where a run runs, in plain words and numbers: kept beside each checkpoint, and compared.

MachineFacts = dict[str, Any]

VERSION: str = torch.__version__

WORKSPACES = (":4096:8", ":16:8")
"""With which cuBLAS repeats itself, by NVIDIA's word."""

WHY = {
    "cpu": "another kind has other kernels",
    "threads": "sums are split among them, and added up in another order",
    "deterministic": "other algorithms may be chosen",
    "compiled": "a compiler joins operations, and they round otherwise",
    "gpu": "another kind has other kernels",
    "cudnn.benchmark": "other algorithms may be chosen",
    "matmul precision": "products are rounded otherwise",
    "cudnn.allow_tf32": "convolutions are rounded otherwise",
    "CUBLAS_WORKSPACE_CONFIG": "cuBLAS may choose other algorithms",
    "NCCL_ALGO": "ranks may be summed in another order",
}


def on_gpu(owners: Iterable[Owner]) -> bool:
    return any(device_of(owner.optimizer) == "cuda" for owner in owners)


def machine_here() -> MachineFacts:
    """With the GPU's settings wherever there is one, whether or not a model will be on it."""
    return machine(gpu=torch.cuda.is_available())


def machine(*, gpu: bool) -> MachineFacts:
    """`gpu`: whether the model is on one of NVIDIA's; on the CPU its settings say nothing."""
    found: MachineFacts = {
        "cpu": _cpu(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }
    if gpu:
        found |= {
            "gpu": torch.cuda.get_device_name(),
            "gpus": torch.cuda.device_count(),
            "cudnn.benchmark": torch.backends.cudnn.benchmark,
            "matmul precision": torch.get_float32_matmul_precision(),
            "cudnn.allow_tf32": torch.backends.cudnn.allow_tf32,
            "CUBLAS_WORKSPACE_CONFIG": os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""),
            "NCCL_ALGO": os.environ.get("NCCL_ALGO", ""),
        }
    return found


def _cpu() -> str:
    kernels = torch.backends.cpu.get_cpu_capability()
    return f"{_cpu_name()} ({kernels})"


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    named = re.search(r"^model name\s*: (.+)$", text, re.M)
    return named[1].strip() if named else platform.processor() or platform.machine()


def changes(saved: Mapping[str, Any], here: MachineFacts) -> list[str]:
    """What is otherwise than at the save, one sentence each."""
    return [
        f"{name} was {saved[name]!r} at the save and is {here[name]!r} here: {why}"
        for name, why in WHY.items()
        if name in saved and name in here and saved[name] != here[name]
    ]


def in_the_way(here: MachineFacts) -> list[str]:
    """Settings with which two runs on one machine may differ, and what to write instead."""
    if "gpu" not in here:
        return []  # On the CPU only single operations are: a probe meets them.
    found = []
    if not here["deterministic"]:
        found.append("torch.use_deterministic_algorithms is off: Engine(deterministic=True)")
    if here["cudnn.benchmark"]:
        found.append("cudnn.benchmark is on: torch.backends.cudnn.benchmark = False")
    if here["CUBLAS_WORKSPACE_CONFIG"] not in WORKSPACES:
        now = here["CUBLAS_WORKSPACE_CONFIG"] or "not set"
        found.append(
            f"CUBLAS_WORKSPACE_CONFIG is {now}: export CUBLAS_WORKSPACE_CONFIG=:4096:8 before the "
            "program starts"
        )
    if here["gpus"] > 1 and not here["NCCL_ALGO"]:
        found.append(
            "NCCL_ALGO is not set, and NCCL may choose otherwise after a restart: export "
            "NCCL_ALGO=Ring before the program starts"
        )
    return found


def ask_for_determinism(*, gpu: bool) -> None:
    """Sets what a running process can set; SetupError for the rest."""
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    rest = in_the_way(machine(gpu=gpu))
    if rest:
        raise SetupError("deterministic=True cannot be kept here: " + "; ".join(rest))


# One window of the user's own, twice from one state.

RAISES = 2
"""torch's mode in which an operation without a deterministic algorithm is an error."""
NO_DETERMINISTIC_KERNEL = re.compile(r"^(\S+) does not have a deterministic implementation")


@dataclass(frozen=True)
class Probe:
    """What became of one window that ran twice from one state."""

    tensors: int
    """How many were compared: parameters and buffers."""
    differs: str | None
    """The first of them that differs, and by how much."""
    operations: tuple[str, ...]
    """Those that torch has no deterministic algorithm for, and that the window met."""

    @property
    def repeats(self) -> bool:
        return self.differs is None

    def __str__(self) -> str:
        if self.differs is not None:
            told = f"a window that ran twice from one state ended differently: {self.differs}"
        else:
            told = (
                f"a window that ran twice from one state ended with all {self.tensors} tensors "
                "equal, bit for bit"
            )
        if self.operations:
            told += f"; torch has no deterministic algorithm for {', '.join(self.operations)}"
        return told


def probe(owner: Owner, run: "KeptState", once: Callable[[], object]) -> Probe:
    """`once`: takes one step, from the state that is there. It is put back at the end."""
    saved = copy.deepcopy(run.state())
    drawn = rng.state()

    def result() -> dict[str, Tensor]:
        try:
            once()
            return _tensors(owner.model)
        finally:
            # A copy each time: an optimizer may keep, and then change, what it is given.
            run.restore(copy.deepcopy(saved))
            rng.restore(drawn)

    first, second = result(), result()
    return Probe(len(first), _first_difference(first, second), _operations(result))


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    named = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor.detach().clone() for name, tensor in named}


def _first_difference(first: dict[str, Tensor], second: dict[str, Tensor]) -> str | None:
    if first.keys() != second.keys():
        odd = sorted(first.keys() ^ second.keys())
        raise EngineError(f"the step changes which tensors the model has: {', '.join(odd)}")
    for name, tensor in first.items():
        count = numbers_apart(tensor, second[name])
        if count:
            return f"{name}, in {count} of {tensor.numel()} numbers"
    return None


def _operations(once: Callable[[], object]) -> tuple[str, ...]:
    before = torch.get_deterministic_debug_mode()
    if before == RAISES:
        return ()  # They would have raised.
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            once()
    finally:
        torch.set_deterministic_debug_mode(before)
    found = (NO_DETERMINISTIC_KERNEL.match(str(warning.message)) for warning in told)
    return tuple(dict.fromkeys(match[1] for match in found if match))
