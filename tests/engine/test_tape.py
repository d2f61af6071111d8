"""The engine writes down what it did, in the ledger's words, and no rule objects."""

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import LBFGS, SGD, AdamW

from gradkeeper.engine import Engine
from gradkeeper.engine.journal import Journal
from gradkeeper.model import Event, Finding, Severity, Tape, audit
from gradkeeper.model import events as ev
from gradkeeper.rules import ALL
from tests.engine.problems import classifier, credit_all, loader, rows


def kinds(tape: Tape) -> list[str]:
    return [type(event).__name__ for event in tape]


def findings(tape: Tape) -> list[Finding]:
    closing = ev.Close(site=tape.events[-1].site)
    found = audit([*tape, closing], ALL)
    return [one for one in found if one.severity is not Severity.INFO]


def plain(size: int, **options: object) -> Engine:
    model = classifier()
    optimizer = AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    engine = Engine(model, optimizer, scheduler=scheduler, **options)  # type: ignore[arg-type]
    for window in engine.windows(loader(23), size=size, epochs=2):
        with window:
            credit_all(window, model)
    return engine


def gan() -> Engine:
    models: dict[str, nn.Module] = {"G": nn.Linear(2, 4), "D": nn.Linear(4, 1)}
    engine = Engine(models, {n: SGD(m.parameters(), lr=0.1) for n, m in models.items()})
    for group in engine.batches([torch.randn(8, 2) for _ in range(6)], size=2):
        for owner in ("D", "G"):
            with engine.window(owner=owner) as window:
                for noise in group:
                    window.backward(models["D"](models["G"](noise)).mean())
    return engine


def lbfgs() -> Engine:
    model = classifier()
    engine = Engine(model, LBFGS(model.parameters(), max_iter=4))
    for window in engine.windows(loader(16), size=2, epochs=2):
        with window:
            window.closure(lambda: credit_all(window, model))  # noqa: B023
    return engine


def faulty() -> Engine:
    model = classifier()
    engine = Engine(model, SGD(model.parameters(), lr=0.1), on_nonfinite="skip")
    x, y = rows(8)
    for place in range(12):
        try:
            with engine.window() as window:
                factor = float("nan") if place == 3 else 1.0
                window.backward(cross_entropy(model(x), y) * factor)
                if place == 6:
                    raise OSError
        except OSError:
            pass
    return engine


RUNS: dict[str, Callable[[], Engine]] = {
    "one": lambda: plain(1),
    "four": lambda: plain(4),
    "clipped": lambda: plain(4, clip_norm=0.1),
    "bf16": lambda: plain(4, precision="bf16"),
    "fp16": lambda: plain(4, precision="fp16", clip_norm=0.1),
    "gan": gan,
    "lbfgs": lbfgs,
    "faulty": faulty,
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_no_rule_fires_on_what_the_engine_did(run: Callable[[], Engine]) -> None:
    assert findings(run().tape) == []


def test_the_audit_can_fail() -> None:
    tape = Tape()
    zeros: set[type[Event]] = {ev.Zero}
    for event in plain(1).tape:
        if type(event) not in zeros:
            tape.record(event)

    assert {one.rule for one in findings(tape)} >= {"GK101"}


def test_the_tape_tells_what_happened_in_order() -> None:
    opening = ["Open", "Adopt", "EpochBegin", *["Batch", "Backward"] * 4]
    closing = ["Step", "Tick", "Zero", "Batch"]

    assert kinds(plain(4).tape)[:16] == [*opening, "Adjust", *closing]
    # Normalising and clipping are one multiplication.
    assert kinds(plain(4, clip_norm=0.1).tape)[:16] == [*opening, "Adjust", *closing]


def test_a_window_of_one_that_is_clipped_says_so() -> None:
    closing = ["Backward", "Clip", "Step", "Tick", "Zero"]

    assert kinds(plain(1, clip_norm=0.01).tape)[4:9] == closing
    assert kinds(plain(1, clip_value=0.01).tape)[4:9] == closing
    assert kinds(plain(1, clip_norm=100.0).tape)[4:8] == [*closing[:1], *closing[2:]]


def test_in_fp16_the_scaler_is_on_the_tape_too() -> None:
    counts = Counter(kinds(plain(4, precision="fp16").tape))

    assert counts["Scale"] == counts["Backward"] == 12
    assert counts["Unscale"] == counts["Update"] == counts["Step"] == 4


def test_events_name_the_user_lines() -> None:
    model = classifier()
    engine = Engine(model, SGD(model.parameters(), lr=0.1))
    with engine.window() as window:
        window.backward(cross_entropy(model(rows(4)[0]), rows(4)[1]))

    here = test_events_name_the_user_lines.__code__.co_firstlineno
    sites = {type(event).__name__: event.site for event in engine.tape}
    assert {site.file for site in sites.values()} == {__file__}
    assert {site.function for site in sites.values()} == {"test_events_name_the_user_lines"}
    lines = {name: site.line - here for name, site in sites.items()}
    assert lines == {"Open": 2, "Adopt": 2, "Backward": 4, "Step": 3, "Zero": 3}


def test_owners_and_their_shared_parameters_have_accounts() -> None:
    trunk = nn.Linear(2, 2)
    models: dict[str, nn.Module] = {n: nn.Sequential(trunk, nn.Linear(2, 1)) for n in "ab"}
    engine = Engine(models, {n: SGD(m.parameters(), lr=0.1) for n, m in models.items()})

    opened = {event.account for event in engine.tape if isinstance(event, ev.Open)}
    adopted = {e.optimizer: e.accounts for e in engine.tape if isinstance(e, ev.Adopt)}

    assert opened == {"a+b", "a", "b"}
    assert adopted == {"a": ("a+b", "a"), "b": ("a+b", "b")}


def test_a_tape_of_the_user_holds_all_of_it() -> None:
    tape = Tape()

    engine = plain(1, tape=tape)

    assert engine.tape is tape
    assert Counter(kinds(tape))["Step"] == 12


def test_the_engine_keeps_the_opening_and_the_latest_only() -> None:
    journal = Journal(most=3)
    journal.write(ev.Open, account="a")
    journal.opened()
    for number in range(10):
        journal.write(ev.Batch, source=str(number))

    assert kinds(journal.tape) == ["Open", "Batch", "Batch", "Batch"]
    assert [e.source for e in journal.tape if isinstance(e, ev.Batch)] == ["7", "8", "9"]


def figures(tape: Tape) -> list[tuple[float | None, float | None]]:
    return [(event.loss, event.norm) for event in tape if isinstance(event, ev.Step)]


@pytest.mark.parametrize("tape", [None, Tape()], ids=["notes", "own tape"])
def test_a_step_tells_the_loss_and_the_norm_of_its_window(tape: Tape | None) -> None:
    logged: list[dict[str, float]] = []
    engine = plain(4, clip_norm=0.1, tape=tape, log=lambda step, values: logged.append(values))

    assert figures(engine.tape) == [(one["loss"], one["grad_norm"]) for one in logged]


def test_a_step_by_closure_tells_them_at_the_weights_before_it() -> None:
    model = classifier()
    engine = Engine(model, LBFGS(model.parameters(), max_iter=4))
    x, y = rows(8)
    before = cross_entropy(model(x), y).item()
    with engine.window() as window:
        window.closure(lambda: window.backward(cross_entropy(model(x), y)))

    assert figures(engine.tape) == [(before, window.grad_norm)]


def test_writing_down_the_loss_reads_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    model = classifier()
    engine = Engine(model, SGD(model.parameters(), lr=0.1), progress=False)
    x, y = rows(8)
    reads: list[torch.Tensor] = []
    item = torch.Tensor.item

    def counted(tensor: torch.Tensor) -> float | int | bool:
        reads.append(tensor)
        return item(tensor)

    monkeypatch.setattr(torch.Tensor, "item", counted)
    for _ in range(5):
        with engine.window() as window:
            window.backward(cross_entropy(model(x), y))

    assert len(reads) == 5, "the norm's, once per window"
    assert len(figures(engine.tape)) == 5
    assert len(reads) == 10, "the losses', when somebody reads the tape"
