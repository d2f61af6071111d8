"""What the callbacks share, called as a framework would."""

from pathlib import Path

import pytest
import torch

from gradkeeper.integrations.called_watch import CalledWatch
from gradkeeper.model.events import Step
from gradkeeper.model.tape import read_file


def train(*, clear: bool) -> None:
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(6, 8, 4):
        if clear:
            optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def rules(watch: CalledWatch) -> list[str]:
    return [one.rule for one in watch.findings]


def test_findings_are_those_of_the_training_that_is_over() -> None:
    watch = CalledWatch(on_finding="record")

    watch.begin(rank=0, title="one")
    train(clear=False)
    before = rules(watch)
    watch.end()

    assert before == []
    assert rules(watch) == ["GK101"]


def test_a_training_that_died_is_closed_by_the_next_one(tmp_path: Path) -> None:
    watch = CalledWatch(on_finding="record", tape=tmp_path / "run.tape")
    untouched = torch.Tensor.backward
    watch.begin(rank=0, title="dies")
    train(clear=False)

    watch.begin(rank=0, title="again")
    after_the_first = rules(watch)
    train(clear=True)
    watch.end()

    assert after_the_first == ["GK101"]
    assert rules(watch) == []
    assert torch.Tensor.backward is untouched


def test_an_end_without_a_beginning_is_nothing() -> None:
    watch = CalledWatch()

    watch.end()

    assert watch.findings == []


def test_each_rank_has_a_tape_and_the_first_writes_the_page(tmp_path: Path) -> None:
    for rank in (0, 1):
        watch = CalledWatch(tape=tmp_path / "run.tape", report=tmp_path / f"page-{rank}.html")
        watch.begin(rank=rank, title="my training")
        train(clear=True)
        watch.end()

    for name in ("run.tape", "run.tape.rank1"):
        assert sum(isinstance(one, Step) for one in read_file(tmp_path / name)) == 6
    assert "my training" in (tmp_path / "page-0.html").read_text()
    assert not (tmp_path / "page-1.html").exists()


def test_a_page_without_a_tape_leaves_only_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    watch = CalledWatch(on_finding="record", report=tmp_path / "page.html")

    watch.begin(rank=0, title="my training")
    train(clear=False)
    watch.end()

    assert "GK101" in (tmp_path / "page.html").read_text()
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"ignore": "GK999"}, "GK999"), ({"on_finding": "shout"}, "shout")],
)
def test_an_option_that_makes_no_sense_is_refused_at_once(
    options: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        CalledWatch(**options)  # type: ignore[arg-type]
