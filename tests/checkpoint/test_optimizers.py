"""Every optimizer, scheduler and scaler of PyTorch goes on as if it had never stopped."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import Optimizer, lr_scheduler

from gradkeeper.checkpoint import Store
from tests.checkpoint.same import same

OPTIMIZERS = [
    kind
    for name, kind in sorted(vars(torch.optim).items())
    if inspect.isclass(kind) and issubclass(kind, Optimizer) and kind is not Optimizer
]
SCHEDULERS: dict[str, Any] = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda step: 0.9**step),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda step: 0.9),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [2, 4, 4]),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 5),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o), lr_scheduler.ExponentialLR(o, 0.9)], [2]
    ),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1),
    "SWALR": lambda o: torch.optim.swa_utils.SWALR(o, 0.05),
}


def again(folder: Path, state: Any) -> Any:
    store = Store(folder)
    store.save(state)
    found = store.load()
    assert found is not None
    return found.state


def build(kind: type[Optimizer]) -> tuple[torch.nn.Module, Optimizer]:
    torch.manual_seed(0)
    model: torch.nn.Module
    if kind is torch.optim.SparseAdam:
        model = torch.nn.Embedding(5, 3, sparse=True)
    else:
        model = torch.nn.Linear(4, 3, bias=kind is not getattr(torch.optim, "Muon", None))
    return model, kind(model.parameters(), lr=0.01)  # type: ignore[call-arg]


def step(model: torch.nn.Module, optimizer: Optimizer, number: int) -> None:
    generator = torch.Generator().manual_seed(number)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        if isinstance(model, torch.nn.Embedding):
            loss: torch.Tensor = model(torch.tensor([0, number % 5])).square().sum()
        else:
            loss = model(torch.randn(8, 4, generator=generator)).square().sum()
        loss.backward()
        return loss

    if isinstance(optimizer, torch.optim.LBFGS):
        generator.manual_seed(number)
        optimizer.step(closure)
        return
    closure()
    optimizer.step()


@pytest.mark.parametrize("kind", OPTIMIZERS, ids=lambda kind: kind.__name__)
def test_an_optimizer_goes_on_bit_for_bit(kind: type[Optimizer], tmp_path: Path) -> None:
    model, optimizer = build(kind)
    for number in range(3):
        step(model, optimizer, number)

    found = again(tmp_path, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})

    assert same(found["optimizer"], optimizer.state_dict())
    new_model, new_optimizer = build(kind)
    new_model.load_state_dict(found["model"])
    new_optimizer.load_state_dict(found["optimizer"])
    for number in range(3, 6):
        step(model, optimizer, number)
        step(new_model, new_optimizer, number)
    assert same(new_model.state_dict(), model.state_dict())
    assert same(new_optimizer.state_dict(), optimizer.state_dict())


def test_every_optimizer_of_torch_is_among_them() -> None:
    names = {kind.__name__ for kind in OPTIMIZERS}

    assert {"Adam", "AdamW", "SGD", "LBFGS", "Adafactor", "SparseAdam"} <= names


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_goes_on_as_it_would_have(name: str, tmp_path: Path) -> None:
    one = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1, momentum=0.9)
    other = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1, momentum=0.9)
    scheduler, new = SCHEDULERS[name](one), SCHEDULERS[name](other)
    tick(scheduler, one, 3)

    found = again(tmp_path, [scheduler.state_dict(), one.state_dict()])

    assert same(found[0], scheduler.state_dict())
    other.load_state_dict(found[1])
    new.load_state_dict(found[0])
    assert same(tick(new, other, 5), tick(scheduler, one, 5))


def tick(scheduler: Any, optimizer: Optimizer, count: int) -> list[float]:
    rates = []
    for _ in range(count):
        optimizer.step()
        if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
            scheduler.step(1.0)
        else:
            scheduler.step()
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


def test_every_scheduler_of_torch_is_among_them() -> None:
    known = {
        name
        for name, kind in vars(lr_scheduler).items()
        if inspect.isclass(kind) and issubclass(kind, lr_scheduler.LRScheduler)
    }

    assert known - {"LRScheduler", "_LRScheduler"} <= SCHEDULERS.keys()


def test_a_scaler_keeps_its_scale(tmp_path: Path) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(torch.ones(1))

    assert same(again(tmp_path, scaler.state_dict()), scaler.state_dict())
