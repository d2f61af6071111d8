"""Under torch.compile: the graphs that there are without a watch, no warning, the same verdicts."""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from gradkeeper import watch

pytestmark = pytest.mark.filterwarnings("ignore")


class Seen(NamedTuple):
    graphs: int
    """What the compiler was handed, recompilations too."""
    operations: int
    said: list[str]
    """By the compiler, of files of ours."""


class Compiler(logging.Handler):
    """Counts the graphs, and keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.graphs = 0
        self.operations = 0
        self.said: list[str] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        self.graphs += 1
        self.operations += len(graph.graph.nodes)
        return graph.forward

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.fixture
def compiler() -> Iterator[Compiler]:
    made = Compiler()
    logger = logging.getLogger("torch._dynamo")
    logger.addHandler(made)
    yield made
    logger.removeHandler(made)
    torch._dynamo.reset()


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


def batches() -> Iterator[torch.Tensor]:
    yield from torch.randn(30, 8, 4)


def the_model(compiler: Compiler, *, zeroed: bool) -> None:
    plain = network()
    opt = torch.optim.SGD(plain.parameters(), lr=0.01)
    model = torch.compile(plain, backend=compiler)
    for x in batches():
        if zeroed:
            opt.zero_grad()
        model(x).square().mean().backward()
        opt.step()


def the_step(compiler: Compiler, *, zeroed: bool) -> None:
    model = network()
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    step = torch.compile(opt.step, backend=compiler)
    for x in batches():
        if zeroed:
            opt.zero_grad()
        model(x).square().mean().backward()
        step()


def the_loss(compiler: Compiler, *, zeroed: bool) -> None:
    model = network()
    opt = torch.optim.SGD(model.parameters(), lr=0.01)

    @torch.compile(backend=compiler)
    def send_back(x: torch.Tensor) -> None:
        model(x).square().mean().backward()

    for x in batches():
        if zeroed:
            opt.zero_grad()
        send_back(x)
        opt.step()


def the_whole(compiler: Compiler, *, zeroed: bool) -> None:
    model = network()
    opt = torch.optim.SGD(model.parameters(), lr=0.01)

    @torch.compile(backend=compiler)
    def train(x: torch.Tensor) -> None:
        if zeroed:
            opt.zero_grad()
        model(x).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()

    for x in batches():
        train(x)


Train = Callable[..., None]
WAYS = [
    the_whole,
    *(pytest.param(one, marks=pytest.mark.slow) for one in (the_model, the_step, the_loss)),
]


def compiled(
    train: Train, compiler: Compiler, around: AbstractContextManager[Any], *, zeroed: bool = True
) -> Seen:
    torch._dynamo.reset()
    compiler.__init__()  # type: ignore[misc]
    with warnings.catch_warnings(record=True) as warned, around:
        warnings.simplefilter("always")
        train(compiler, zeroed=zeroed)
    said = [*compiler.said, *(str(one.message) for one in warned)]
    ours = [one for one in said if "gradkeeper" in one or "recompile_limit" in one]
    return Seen(compiler.graphs, compiler.operations, ours)


@pytest.mark.parametrize("train", WAYS)
def test_a_watch_changes_nothing_of_what_is_compiled(train: Train, compiler: Compiler) -> None:
    plain = compiled(train, compiler, nullcontext())

    with watch(on_finding="record") as watched:
        seen = compiled(train, compiler, nullcontext())

    assert seen == plain
    assert seen.said == []
    assert watched.trained
    assert watched.findings == []


@pytest.mark.parametrize("train", WAYS)
def test_a_fault_is_found_as_ever(train: Train, compiler: Compiler) -> None:
    watched = watch(on_finding="record")

    compiled(train, compiler, watched, zeroed=False)

    assert [one.rule for one in watched.findings] == ["GK101"]


def test_a_function_of_one_graph_may_clip_and_clear(compiler: Compiler) -> None:
    model = network()
    opt = torch.optim.SGD(model.parameters(), lr=0.01)

    @torch.compile(backend=compiler, fullgraph=True)
    def clip() -> torch.Tensor:
        return torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    with watch(on_finding="record") as watched:
        for x in batches():
            opt.zero_grad()
            model(x).square().mean().backward()
            clip()
            opt.step()

    assert watched.findings == []
