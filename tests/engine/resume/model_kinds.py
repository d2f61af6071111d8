"""Models and optimizers as people have them, each in one small program that is killed and resumed.

Those of third parties are imported where they are made: see the `models` extra.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Adafactor, AdamW, Muon, Optimizer
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

from gradkeeper.engine import Engine


def nothing() -> None:
    return


@dataclass
class Kind:
    model: nn.Module
    optimizer: Optimizer
    tracked: dict[str, Any] = field(default_factory=dict)
    after_step: Callable[[], object] = nothing
    around_evaluation: Callable[[], AbstractContextManager[object]] = nullcontext


def plain_model(*, bias: bool = True) -> nn.Sequential:
    hidden = nn.Linear(6, 8, bias=bias)
    return nn.Sequential(hidden, nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 3, bias=bias))


def muon() -> Kind:
    """It is for matrices only."""
    model = plain_model(bias=False)
    return Kind(model, Muon(model.parameters(), lr=0.02))


class MuonAndAdamW(Optimizer):
    """Muon for matrices and AdamW for the rest, as the guide makes one of them."""

    def __init__(self, model: nn.Module) -> None:
        matrices = [p for p in model.parameters() if p.ndim == 2]
        rest = [p for p in model.parameters() if p.ndim != 2]
        self.parts: tuple[Optimizer, ...] = (Muon(matrices, lr=0.02), AdamW(rest, lr=0.01))
        super().__init__([group for part in self.parts for group in part.param_groups], {})
        self._share()

    def _share(self) -> None:
        for part, group in zip(self.parts, self.param_groups, strict=True):
            part.param_groups, part.state = [group], self.state

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for part in self.parts:
            part.step()

    def load_state_dict(self, state_dict: Any) -> None:
        super().load_state_dict(state_dict)
        self._share()


def muon_beside() -> Kind:
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Dropout(0.3), nn.Linear(8, 3))
    return Kind(model, MuonAndAdamW(model))


def adafactor() -> Kind:
    model = plain_model()
    return Kind(model, Adafactor(model.parameters()))


def averaged() -> Kind:
    model = plain_model()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    return Kind(
        model,
        AdamW(model.parameters(), lr=0.01),
        {"average": average},
        lambda: average.update_parameters(model),
    )


class Recomputing(nn.Module):
    """Its first half is forgotten in the forward, and computed again, dropout too."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.ReLU())
        self.last = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(checkpoint(self.first, x, use_reentrant=False))
        return out


def recomputed() -> Kind:
    model = Recomputing()
    return Kind(model, AdamW(model.parameters(), lr=0.01))


def compiled(backend: str = "aot_eager") -> Kind:
    model = plain_model()
    whole = torch.compile(model, backend=backend)
    assert isinstance(whole, nn.Module)
    return Kind(whole, AdamW(whole.parameters(), lr=0.01))


class Adapted(nn.Module):
    """A frozen layer with a low-rank adapter beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(6, 8).requires_grad_(False)
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 8, bias=False)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(torch.tanh(self.base(x) + self.up(self.down(x))))
        return out


def adapted() -> Kind:
    model = Adapted()
    return Kind(model, AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01))


def schedule_free() -> Kind:
    """Its weights are others in evaluation: those of eval() must not be what is saved."""
    from schedulefree import AdamWScheduleFree

    model = plain_model()
    optimizer = AdamWScheduleFree(model.parameters(), lr=0.01)
    optimizer.train()

    class Evaluating(AbstractContextManager[object]):
        def __enter__(self) -> None:
            optimizer.eval()

        def __exit__(self, *_: object) -> None:
            optimizer.train()

    return Kind(model, optimizer, around_evaluation=Evaluating)


def by_inductor() -> Kind:
    """Its kernels are compiled by the machine's own compiler."""
    return compiled("inductor")


def lora() -> Kind:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(plain_model(), LoraConfig(target_modules=["0", "3"], r=2))
    return Kind(model, AdamW(model.parameters(), lr=0.01))


def eight_bit() -> Kind:
    from torchao.optim import AdamW8bit

    model = nn.Sequential(nn.Linear(6, 700), nn.ReLU(), nn.Linear(700, 3))
    return Kind(model, AdamW8bit(model.parameters(), lr=0.01))


OF_TORCH = ("muon", "muon_beside", "adafactor", "averaged", "recomputed", "compiled", "adapted")
OF_OTHERS = ("schedule_free", "lora", "eight_bit")
BY_A_COMPILER = ("by_inductor",)
KINDS: dict[str, Callable[[], Kind]] = {
    "muon": muon,
    "muon_beside": muon_beside,
    "adafactor": adafactor,
    "averaged": averaged,
    "recomputed": recomputed,
    "compiled": compiled,
    "adapted": adapted,
    "schedule_free": schedule_free,
    "lora": lora,
    "eight_bit": eight_bit,
    "by_inductor": by_inductor,
}


def train(
    kind: Kind, folder: Path, step: Callable[[], None], data: Any, *, track: bool = True
) -> list[Any]:
    """All that it computed."""
    engine = Engine(kind.model, kind.optimizer, clip_norm=1.0, checkpoint=folder)
    for name, thing in kind.tracked.items():
        if track:
            engine.track(name, thing)
    losses = engine.track("losses", [])
    engine.resume()
    loader = DataLoader(data, batch_size=4, shuffle=True)
    for window in engine.windows(loader, size=3, epochs=2):
        with window:
            for x, y in window:
                window.backward(cross_entropy(kind.model(x), y), weight=len(y))
                engine.save()
                step()
        kind.after_step()
        losses.append(window.loss)
        with engine.aside(), kind.around_evaluation(), torch.no_grad():
            kind.model(torch.randn(2, 6))
    tracked = [thing.state_dict() for thing in kind.tracked.values()]
    return [kind.model.state_dict(), losses, tracked]
