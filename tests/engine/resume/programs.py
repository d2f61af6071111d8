"""Small programs that train, save and resume: what a user would write, with a few hooks.

Each is run from its first line by every process that goes on with it, and ends with a digest of
all that it computed.
"""

import hashlib
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import LBFGS, SGD, Adam, AdamW
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau, StepLR
from torch.utils.data import DataLoader, Dataset

from gradkeeper.engine import Engine, EngineWarning
from tests.engine.resume.data_kinds import KINDS as DATA_KINDS
from tests.engine.resume.data_kinds import train as train_on
from tests.engine.resume.model_kinds import KINDS, train

Hook = Callable[[], None]
Program = Callable[[Path, Hook, dict[str, Any]], str]


class Noisy(Dataset[tuple[Tensor, int]]):
    """Items that draw from every generator there is, as augmentation does."""

    def __init__(self, count: int = 39) -> None:
        generator = torch.Generator().manual_seed(5)
        self.x = torch.randn(count, 6, generator=generator)
        self.y = torch.randint(0, 3, (count,), generator=generator)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        noise = torch.rand(6) + random.random() + float(numpy.random.random())
        return self.x[place] + 0.1 * noise, int(self.y[place])


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3))


def seed() -> None:
    torch.manual_seed(11)
    random.seed(12)
    numpy.random.seed(13)


def digest(*parts: Any) -> str:
    """Of tensors, numbers and containers of them, and of the generators as they are now."""
    found = hashlib.sha256()
    for part in (
        *parts,
        torch.get_rng_state(),
        random.getstate(),
        numpy.random.get_state(legacy=True),
    ):
        _add(found, part)
    return found.hexdigest()


def _add(found: Any, part: Any) -> None:
    match part:
        case Tensor():
            found.update(str((part.dtype, tuple(part.shape))).encode())
            found.update(part.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
        case dict():
            for key, value in part.items():
                _add(found, (str(key), value))
        case list() | tuple():
            for one in part:
                _add(found, one)
        case numpy.ndarray():
            found.update(part.tobytes())
        case _:
            found.update(repr(part).encode())


def plain(folder: Path, step: Hook, options: dict[str, Any]) -> str:
    """Shuffle, dropout, random numbers in items, AdamW, a schedule, windows of 4, tails."""
    seed()
    loader = DataLoader(
        Noisy(),
        batch_size=4,
        shuffle=True,
        num_workers=options.get("workers", 0),
        persistent_workers=options.get("persistent", False),
    )
    net = model()
    optimizer = AdamW(net.parameters(), lr=0.01)
    scheduler = OneCycleLR(optimizer, 0.02, total_steps=10)
    engine = Engine(
        net,
        optimizer,
        scheduler=scheduler,
        clip_norm=1.0,
        precision=options.get("precision", "fp32"),
        checkpoint=folder,
        save_every=options.get("save_every"),
    )
    losses = engine.track("losses", [])
    engine.resume()
    for window in engine.windows(loader, size=4, epochs=3):
        with window:
            for x, y in window:
                window.backward(cross_entropy(net(x), y), weight=len(y))
                if "save_every" not in options:
                    engine.save()
                step()
        losses.append(window.loss)
    return digest(net.state_dict(), optimizer.state_dict(), scheduler.state_dict(), losses)


def half(folder: Path, step: Hook, options: dict[str, Any]) -> str:
    """float16 with a scale that overflows at first, and overflows again later."""
    seed()
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = Adam(net.parameters(), lr=0.01)
    engine = Engine(net, optimizer, precision="fp16", checkpoint=folder)
    engine.resume()
    told = engine.track("told", [])
    for window in engine.windows(DataLoader(Noisy(), batch_size=4), size=3, epochs=2):
        with window:
            for x, y in window:
                boost = 1e4 if random.random() < 0.2 else 300.0
                window.backward(boost * cross_entropy(net(x), y))
                engine.save()
                step()
        told.append((window.stepped, window.step))
    assert {stepped for stepped, _ in told} == {True, False}
    return digest(net.state_dict(), optimizer.state_dict(), told)


def owners(folder: Path, step: Hook, options: dict[str, Any]) -> str:
    """Two owners at different rhythms, by groups."""
    seed()
    g, d = nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizers = {"g": Adam(g.parameters(), lr=0.01), "d": SGD(d.parameters(), 0.1, momentum=0.9)}
    engine = Engine(
        {"g": g, "d": d},
        optimizers,
        scheduler={"d": StepLR(optimizers["d"], 3)},
        checkpoint=folder,
        save_every=options.get("save_every"),
    )
    engine.resume()
    loader = DataLoader(Noisy(), batch_size=4, shuffle=True)
    for group in engine.batches(loader, size=2, epochs=2):
        for _ in range(2):
            with engine.window(owner="d") as window:
                for x, _ in group:
                    window.backward(d(g(torch.randn_like(x))).mean() - d(x).mean())
        with engine.window(owner="g") as window:
            for x, _ in group:
                window.backward(-d(g(torch.randn_like(x))).mean())
        if "save_every" not in options:
            engine.save()
        step()
    return digest(g.state_dict(), d.state_dict(), *(o.state_dict() for o in optimizers.values()))


def epochs(folder: Path, step: Hook, options: dict[str, Any]) -> str:
    """A loop per epoch, two loaders with generators of their own, and code between the loops."""
    seed()
    net = model()
    optimizer = SGD(net.parameters(), lr=0.1, momentum=0.9)
    plateau = ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
    engine = Engine(net, optimizer, scheduler=plateau, checkpoint=folder)
    first, second = (
        DataLoader(
            Noisy(14),
            batch_size=3,
            shuffle=True,
            generator=torch.Generator().manual_seed(number),
        )
        for number in (21, 22)
    )
    rates = engine.track("rates", [])
    engine.resume()
    for epoch in range(2):
        for loader in (first, second):
            for window in engine.windows(loader, size=2):
                with window:
                    for x, y in window:
                        window.backward(cross_entropy(net(x), y), weight=len(y))
                        engine.save()
                        step()
            net.eval()
            with torch.no_grad():
                plateau.step(float(net(torch.randn(4, 6)).abs().sum()))
            net.train()
            if epoch == 1:
                engine.save()
            rates.append(optimizer.param_groups[0]["lr"])
    return digest(net.state_dict(), optimizer.state_dict(), plateau.state_dict(), rates)


def closure(folder: Path, step: Hook, options: dict[str, Any]) -> str:
    """LBFGS: a save asked for inside a closure waits for the window's end."""
    seed()
    net = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
    optimizer = LBFGS(net.parameters(), max_iter=3, history_size=4)
    engine = Engine(net, optimizer, checkpoint=folder)
    engine.resume()
    for window in engine.windows(DataLoader(Noisy(20), batch_size=4), size=2, epochs=3):
        with window:

            @window.closure
            def evaluate() -> None:
                for x, y in window:  # noqa: B023
                    window.backward(cross_entropy(net(x), y))  # noqa: B023
                engine.save()

        step()
    return digest(net.state_dict(), optimizer.state_dict())


def stateful(folder: Path, step: Hook, options: dict[str, Any]) -> str:
    """torchdata's StatefulDataLoader, whose workers draw."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    seed()
    net = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.2), nn.Linear(8, 3))
    optimizer = Adam(net.parameters(), lr=0.01)
    engine = Engine(net, optimizer, checkpoint=folder)
    engine.resume()
    loader = StatefulDataLoader(
        Noisy(), batch_size=4, shuffle=True, num_workers=options.get("workers", 0)
    )
    for window in engine.windows(loader, size=3, epochs=2):
        with window:
            for x, y in window:
                window.backward(cross_entropy(net(x), y), weight=len(y))
                engine.save()
                step()
    return digest(net.state_dict(), optimizer.state_dict())


def manual(folder: Path, step: Hook, options: dict[str, Any]) -> str:
    """No loader: batches are the program's own, and so is their place."""
    seed()
    net = model()
    optimizer = AdamW(net.parameters(), lr=0.01)
    engine = Engine(net, optimizer, checkpoint=folder)
    engine.resume()
    while engine.steps["optimizer"] < 8:
        with engine.window() as window:
            for _ in range(2):
                x = torch.randn(4, 6)
                window.backward(cross_entropy(net(x), torch.tensor([0, 1, 2, 0])))
            engine.save()
        step()
    return digest(net.state_dict(), optimizer.state_dict())


def forgetful(folder: Path, step: Hook, options: dict[str, Any]) -> str:
    """Draws from a generator that it does not track: what the comparison must be able to catch."""
    seed()
    net = nn.Linear(6, 3)
    optimizer = SGD(net.parameters(), lr=0.1)
    engine = Engine(net, optimizer, checkpoint=folder)
    engine.resume()
    own = torch.Generator().manual_seed(1)
    for window in engine.windows(DataLoader(Noisy(), batch_size=4), size=2):
        with window:
            for x, y in window:
                noise = torch.rand(x.shape, generator=own)
                window.backward(cross_entropy(net(x + noise), y))
                engine.save()
                step()
    return digest(net.state_dict())


def kinds(folder: Path, step: Hook, options: dict[str, Any]) -> str:
    """A model and an optimizer of model_kinds.py."""
    seed()
    kind = KINDS[options["kind"]]()
    return digest(train(kind, folder, step, Noisy(), track=options.get("track", True)))


def data(folder: Path, step: Hook, options: dict[str, Any]) -> str:
    """A pipeline of data_kinds.py."""
    if DATA_KINDS[options["kind"]].needs:
        # What other people's packages warn of is theirs.
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", EngineWarning)
    seed()
    return digest(train_on(options["kind"], folder, step))


PROGRAMS: dict[str, Program] = {
    one.__name__: one
    for one in (plain, half, owners, epochs, closure, stateful, manual, forgetful, kinds, data)
}
