"""Gradients of all kinds: missing, sparse, tied, complex, half, compiled, fused."""

from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, embedding
from torch.optim import SGD, Adam, AdamW, Optimizer, SparseAdam

from gradkeeper.engine import Engine
from tests.engine.problems import classifier, distance, engine_of, rows, same, weights_of

Build = Callable[[Iterable[nn.Parameter]], Optimizer]


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.trunk = nn.Linear(6, 8)
        self.heads = nn.ModuleList([nn.Linear(8, 3), nn.Linear(8, 3)])

    def forward(self, x: Tensor, head: int) -> Tensor:
        scores: Tensor = self.heads[head](self.trunk(x))
        return scores


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_a_parameter_without_a_gradient_is_neither_moved_nor_decayed(decay: float) -> None:
    x, y = rows(8)
    model, twin = TwoHeads(), TwoHeads()
    by_hand = AdamW(twin.parameters(), lr=0.01, weight_decay=decay)
    engine = Engine(model, AdamW(model.parameters(), lr=0.01, weight_decay=decay), clip_norm=0.1)
    idle = weights_of(model.heads[1])

    for head in (0, 0, 0):
        with engine.window() as window:
            window.backward(cross_entropy(model(x, head), y))
            window.backward(cross_entropy(model(x, head), y))
        by_hand.zero_grad()
        cross_entropy(twin(x, head), y).backward()
        nn.utils.clip_grad_norm_(twin.parameters(), 0.1)
        by_hand.step()

    assert all(torch.equal(a, b) for a, b in zip(weights_of(model.heads[1]), idle, strict=True))
    assert distance(weights_of(model), weights_of(twin)) <= 1e-6


def test_heads_that_take_turns_within_a_window() -> None:
    x, y = rows(8)
    model = TwoHeads()
    with engine_of(model).window() as window:
        for head in (0, 1, 0, 1):
            window.backward(cross_entropy(model(x, head), y))

    assert window.stepped


@pytest.mark.parametrize("options", [{}, {"clip_norm": 0.05}, {"clip_value": 0.01}])
def test_sparse_gradients(options: dict[str, float]) -> None:
    def build(sparse: bool) -> nn.Embedding:
        torch.manual_seed(1)
        return nn.Embedding(10, 3, sparse=sparse, dtype=torch.float64)

    parts = [torch.tensor([1, 1, 2]), torch.tensor([2, 7])]

    def train(table: nn.Embedding) -> float | None:
        engine = Engine(table, SGD(table.parameters(), lr=0.5), **options)  # type: ignore[arg-type]
        with engine.window() as window:
            for part in parts:
                window.backward(table(part).square().mean(), weight=len(part))
        assert window.stepped
        return window.grad_norm

    sparse, dense = build(True), build(False)
    assert train(sparse) == pytest.approx(train(dense), rel=1e-12)
    assert distance(weights_of(sparse), weights_of(dense)) <= 1e-12


def test_sparse_adam_leaves_untouched_rows_alone() -> None:
    table = nn.Embedding(10, 3, sparse=True)
    before = table.weight.detach().clone()
    with Engine(table, SparseAdam(table.parameters())).window() as window:
        window.backward(table(torch.tensor([1, 2])).sum())
        window.backward(table(torch.tensor([2])).sum())

    moved = (table.weight != before).any(dim=1)
    assert moved.nonzero().flatten().tolist() == [1, 2]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.table = nn.Embedding(5, 4)
        self.out = nn.Linear(4, 5, bias=False)
        self.out.weight = self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.out(embedding(x, self.table.weight))
        return scores


def test_tied_parameters_are_spent_once() -> None:
    x = torch.tensor([0, 1, 2, 3])
    model, twin = Tied(), Tied()
    optimizer = SGD(twin.parameters(), lr=0.1)
    cross_entropy(twin(x), x).backward()
    optimizer.step()

    with engine_of(model).window() as window:
        window.backward(cross_entropy(model(x[:1]), x[:1]), weight=1)
        window.backward(cross_entropy(model(x[1:]), x[1:]), weight=3)

    assert distance(weights_of(model), weights_of(twin)) <= 1e-6


def test_complex_parameters() -> None:
    def build() -> nn.ParameterList:
        torch.manual_seed(1)
        return nn.ParameterList([nn.Parameter(torch.randn(4, dtype=torch.complex128))])

    x = torch.randn(6, 4, dtype=torch.complex128)
    model, twin = build(), build()
    (x @ twin[0]).abs().square().mean().backward()
    norm = nn.utils.clip_grad_norm_(twin.parameters(), 0.1).item()
    SGD(twin.parameters(), lr=0.1).step()

    with Engine(model, SGD(model.parameters(), lr=0.1), clip_norm=0.1).window() as window:
        for part in x.split([1, 5]):
            window.backward((part @ model[0]).abs().square().mean(), weight=len(part))

    assert window.grad_norm == pytest.approx(norm, rel=1e-12)
    # torch adds 1e-6 to the norm it divides by, and so do we.
    assert distance(weights_of(model), weights_of(twin)) <= 1e-12


def test_parameters_of_several_dtypes() -> None:
    torch.manual_seed(1)
    parameters = [nn.Parameter(torch.ones(3, dtype=dtype)) for dtype in HALVES]
    model = nn.ParameterList(parameters)

    with Engine(model, SGD(model.parameters(), lr=1.0), clip_norm=1.0).window() as window:
        losses = [p.float().sum() * 2 for p in model]
        window.backward(torch.stack(losses).sum())

    assert window.grad_norm == pytest.approx(2 * 12**0.5)
    for parameter in model:
        assert parameter[0].item() == pytest.approx(1 - 1 / 12**0.5, rel=0.01)


HALVES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def test_a_norm_above_the_range_of_float16_is_still_a_number() -> None:
    parameter = nn.Parameter(torch.zeros(64, dtype=torch.float16))
    model = nn.ParameterList([parameter])
    with Engine(model, SGD(model.parameters(), lr=1.0), clip_norm=1.0).window() as window:
        window.backward((parameter.float() * 6e4).sum())

    assert window.grad_norm == pytest.approx(8 * 6e4, rel=1e-3)
    assert parameter[0].item() == pytest.approx(-1 / 8, rel=1e-2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_model(backend: str) -> None:
    x, y = rows(8)
    plain, inner = classifier(), classifier()
    model = torch.compile(inner, backend=backend)
    for trained, call in ((plain, plain), (inner, model)):
        engine = engine_of(call if isinstance(call, nn.Module) else trained)
        for _ in range(3):
            with engine.window() as window:
                window.backward(cross_entropy(call(x), y))

    assert distance(weights_of(inner), weights_of(plain)) <= 1e-6


BUILDS: dict[str, Build] = {
    "foreach": lambda p: Adam(p, lr=0.01, foreach=True),
    "fused": lambda p: Adam(p, lr=0.01, fused=True),
    "single": lambda p: Adam(p, lr=0.01, foreach=False),
}


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_optimizers_of_every_implementation(build: Build) -> None:
    x, y = rows(8)
    model, twin = classifier(), classifier()
    by_hand = build(twin.parameters())
    engine = engine_of(model, build)
    for _ in range(3):
        by_hand.zero_grad()
        cross_entropy(twin(x), y).backward()
        by_hand.step()
        with engine.window() as window:
            window.backward(cross_entropy(model(x), y), weight=8)

    assert same(model, twin)


def test_parameters_that_nobody_owns_do_not_hoard_gradients() -> None:
    x, y = rows(8)
    model = TwoHeads()
    engine = Engine(model, SGD(model.heads.parameters(), lr=0.1))
    for _ in range(2):
        with engine.window() as window:
            window.backward(cross_entropy(model(x, 0), y))

    assert window.stepped
    assert all(p.grad is None for p in model.parameters())


def test_gradients_of_inputs_stay_for_the_user() -> None:
    x, y = rows(8)
    x.requires_grad_(True)
    model = classifier()
    with engine_of(model).window() as window:
        window.backward(cross_entropy(model(x), y))

    assert x.grad is not None


def test_several_losses_of_one_graph_retain_it() -> None:
    x, y = rows(8, torch.float64)
    model, twin = classifier(torch.float64), classifier(torch.float64)
    scores = twin(x)
    (cross_entropy(scores, y) + scores.square().mean()).backward()
    SGD(twin.parameters(), lr=0.1).step()

    with engine_of(model).window() as window:
        scores = model(x)
        window.backward(cross_entropy(scores, y), retain_graph=True)
        window.backward(scores.square().mean(), counts=False)

    assert distance(weights_of(model), weights_of(twin)) <= 1e-12


def test_truncated_backpropagation_through_time() -> None:
    def build() -> nn.RNN:
        torch.manual_seed(1)
        return nn.RNN(3, 5, batch_first=True, dtype=torch.float64)

    x = torch.randn(2, 12, 3, dtype=torch.float64)

    twin = build()
    optimizer = SGD(twin.parameters(), lr=0.1)
    state = None
    for chunk in x.split(4, dim=1):
        out, state = twin(chunk, state)
        optimizer.zero_grad()
        out.square().mean().backward()
        optimizer.step()
        state = state.detach()

    model = build()
    engine = engine_of(model)
    state = None
    for chunk in x.split(4, dim=1):
        with engine.window() as window:
            out, state = model(chunk, state)
            window.backward(out.square().mean())
            state = state.detach()

    assert distance(weights_of(model), weights_of(twin)) <= 1e-12


def test_a_group_added_later_is_trained_too() -> None:
    x, y = rows(8)
    model = TwoHeads()
    optimizer = SGD(model.heads.parameters(), lr=0.1)
    engine = Engine(model, optimizer)
    optimizer.add_param_group({"params": list(model.trunk.parameters())})
    before = weights_of(model.trunk)

    with engine.window() as window:
        window.backward(cross_entropy(model(x, 0), y))

    assert window.stepped
    assert distance(weights_of(model.trunk), before) > 0
