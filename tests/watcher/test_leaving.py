"""What watches leave behind, in whatever order they end, and in whatever threads: nothing."""

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad
from torch.optim import lr_scheduler, optimizer
from torch.utils.data import dataloader

from gradkeeper import watch
from gradkeeper.watcher import Watch
from gradkeeper.watcher.patches import replace

Pair = tuple[nn.Module, torch.optim.Optimizer]


def family(root: type) -> Iterator[type]:
    yield root
    children: list[type] = root.__subclasses__()
    for child in children:
        yield from family(child)


def fingerprint(*objects: object) -> dict[object, int]:
    """What torch's names stand for, in torch and wherever they were imported; what these hold."""
    owners: list[Any] = [
        torch,
        torch.autograd,
        torch.Tensor,
        nn.Module,
        nn.Parameter,
        nn.utils,
        clip_grad,
        torch.amp.GradScaler,
        DistributedDataParallel,
        torch.distributed,
        dataloader._BaseDataLoaderIter,
        warnings,
        *family(torch.optim.Optimizer),
        *family(lr_scheduler.LRScheduler),
    ]
    found: dict[object, int] = {
        (id(one), name): id(value) for one in owners for name, value in vars(one).items()
    }
    for module in [one for one in list(sys.modules.values()) if type(one) is ModuleType]:
        for name in ("save", "load", "clip_grad_norm_", "clip_grad_value_", "warn", "all_reduce"):
            found[module.__name__, name] = id(vars(module).get(name))
    for place, one in enumerate(objects):
        found |= {(place, name): id(value) for name, value in vars(one).items()}
    for hooks in ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"):
        found[hooks] = len(vars(optimizer)[hooks])
    return found


def built() -> Pair:
    model = nn.Linear(4, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def right(model: nn.Module, opt: torch.optim.Optimizer, steps: int = 40) -> None:
    for x in torch.randn(steps, 8, 4):
        opt.zero_grad()
        model(x).square().mean().backward()
        opt.step()


def wrong(model: nn.Module, opt: torch.optim.Optimizer, steps: int = 40) -> None:
    for x in torch.randn(steps, 8, 4):
        model(x).square().mean().backward()
        opt.step()


def rules(watched: Watch) -> list[str]:
    return [one.rule for one in watched.findings]


def together(*jobs: Callable[[], None]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.fixture(autouse=True)
def _warm() -> None:
    """Some modules are imported when they are first used."""
    with watch(on_finding="record"):
        right(*built())


@pytest.mark.parametrize("exits", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1), (2, 0, 1)])
def test_blocks_may_end_in_any_order(exits: tuple[int, ...]) -> None:
    model, opt = built()
    before = fingerprint(model, opt)
    blocks = [watch(on_finding="record") for _ in exits]

    for block in blocks:
        block.__enter__()
    assert fingerprint(model, opt) != before
    for place in exits:
        right(model, opt)
        blocks[place].__exit__(None, None, None)
    opt.zero_grad()

    assert fingerprint(model, opt) == before


def test_a_block_that_others_outlive_sees_no_more() -> None:
    early, late = watch(on_finding="record"), watch(on_finding="record")
    early.__enter__()
    late.__enter__()
    early.__exit__(None, None, None)
    wrong(*built())
    late.__exit__(None, None, None)

    assert (rules(early), rules(late)) == ([], ["GK101"])


def test_blocks_that_overlapped_leave_later_ones_right() -> None:
    early, late = watch(on_finding="record"), watch(on_finding="record")
    early.__enter__()
    late.__enter__()
    early.__exit__(None, None, None)
    late.__exit__(None, None, None)

    with watch(on_finding="record") as now:
        right(*built())

    assert rules(now) == []
    assert not [event for event in now.tape if type(event).__name__ == "Move"]


def test_blocks_of_two_threads_leave_torch_as_it_was() -> None:
    pairs = {"right": built(), "wrong": built()}
    before = fingerprint(*pairs["right"], *pairs["wrong"])
    found = {}
    entered, meet = threading.Barrier(2), threading.Barrier(2)

    def block(name: str, loop: Callable[..., None]) -> None:
        model, opt = pairs[name]
        with watch(opt, on_finding="record") as watched:
            entered.wait()
            loop(model, opt)
            opt.zero_grad()
            meet.wait()
        found[name] = rules(watched)

    together(lambda: block("right", right), lambda: block("wrong", wrong))

    assert found == {"right": [], "wrong": ["GK101"]}
    assert fingerprint(*pairs["right"], *pairs["wrong"]) == before


@pytest.mark.parametrize("named", [True, False])
def test_one_block_names_the_faulty_one_of_two_threads(named: bool) -> None:
    good, bad = built(), built()

    with watch(*([good[1], bad[1]] if named else []), on_finding="record") as watched:
        together(lambda: right(*good), lambda: wrong(*bad))

    (finding,) = watched.findings
    assert (finding.rule, finding.site.function) == ("GK101", "wrong")


def test_one_block_over_two_threads_that_train_well_is_silent() -> None:
    one, other = built(), built()

    with watch(one[1], other[1], on_finding="record") as watched:
        together(lambda: right(*one), lambda: right(*other))

    assert [*watched.findings, *watched.infos] == []


def test_what_somebody_else_put_over_ours_stays() -> None:
    class Torchs:
        @staticmethod
        def save() -> list[str]:
            return ["torch"]

    def saying(name: str) -> Callable[[Any], Any]:
        return lambda original: lambda: [name, *original()]

    first = replace(Torchs, "save", saying("first"))
    second = replace(Torchs, "save", saying("second"))
    under = Torchs.save
    Torchs.save = staticmethod(lambda: ["theirs", *under()])  # type: ignore[method-assign]
    third = replace(Torchs, "save", saying("third"))
    first()
    assert Torchs.save() == ["third", "theirs", "second", "first", "torch"]
    third()
    second()

    assert Torchs.save()[0] == "theirs"
