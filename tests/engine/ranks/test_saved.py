"""Checkpoints of several ranks: wherever a run is cut, it goes on to the very same end."""

import shutil
import signal
import warnings
from collections import UserDict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from gradkeeper.checkpoint import CheckpointWarning
from gradkeeper.cli import main
from gradkeeper.engine import Engine, LoaderError, preemption
from gradkeeper.engine.ranks import Sync
from tests.engine.problems import plain_sgd
from tests.engine.ranks.pool import Pool
from tests.engine.ranks.problems import KINDS, wrapped
from tests.engine.ranks.programs import Options, train, train_to_digest

pytestmark = pytest.mark.filterwarnings("ignore:layer '1' normalises")


def cut_after(folder: Path, number: int, target: Path) -> Path:
    """The folder as a kill after that save would have left it."""
    target.mkdir()
    for name in sorted(one.name for one in folder.iterdir() if one.name.startswith("save-")):
        if int(name.removeprefix("save-")) <= number:
            shutil.copytree(folder / name, target / name)
    return target


def check_every_cut(
    pool: Pool, kind: str, folder: Path, options: dict[str, Any], every: int
) -> int:
    expected = pool.run(train_to_digest, kind, str(folder / "whole"), options)
    saves = len(list((folder / "whole").glob("save-*")))
    for number in range(1, saves, every):
        cut = cut_after(folder / "whole", number, folder / f"cut-{number}")
        found = pool.run(train_to_digest, kind, str(cut), options)
        assert [digest for _, digest in found] == [digest for _, digest in expected], number
        assert all(resumed for resumed, _ in found)
    return saves


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampler", ["distributed", "uneven"])
def test_a_run_cut_at_any_micro_step_ends_bit_for_bit_the_same(
    two_ranks: Pool, tmp_path: Path, kind: str, sampler: str, request: pytest.FixtureRequest
) -> None:
    options = {"sampler": sampler, "coupled": kind == "ddp"}
    every = 1 if request.config.getoption("--slow") else 5

    saves = check_every_cut(two_ranks, kind, tmp_path, options, every)

    assert saves >= 20


def train_until_told(rank: int, kind: str, folder: str, options: Options) -> tuple[Any, int]:
    """How it ended, and how many saves there were then."""
    code: Any = 0
    before = signal.getsignal(signal.SIGTERM)
    try:
        train(rank, kind, folder, options)
    except SystemExit as end:
        code = end.code
    finally:
        signal.signal(signal.SIGTERM, before)
        preemption._first = None
    return code, len(list(Path(folder).glob("save-*")))


@pytest.mark.parametrize(("kind", "sync"), [("ddp", "last"), ("fsdp", "every"), ("fsdp", "last")])
def test_a_signal_to_one_rank_stops_all_at_the_same_place(
    two_ranks: Pool, tmp_path: Path, kind: str, sync: str
) -> None:
    options = {"sync": sync, "save_every": 1000, "epochs": 1}
    expected = two_ranks.run(train_to_digest, kind, str(tmp_path / "whole"), options)
    told = options | {"die_at": [5], "signal": int(signal.SIGTERM)}

    ended = two_ranks.run(train_until_told, kind, str(tmp_path / "cut"), told)
    found = two_ranks.run(train_to_digest, kind, str(tmp_path / "cut"), options)

    assert [code for code, _ in ended] == [143, 143]
    assert [count for _, count in ended] == [1, 1]
    assert found == [(True, digest) for _, digest in expected]


def save_on_one(rank: int, folder: str) -> int:
    options: Options = {"save_every": 1000, "epochs": 1, "ask_on": 1}
    train(rank, "ddp", folder, options)
    return len(list(Path(folder).glob("save-*")))


def test_a_save_asked_for_on_one_rank_is_a_save_of_all(two_ranks: Pool, tmp_path: Path) -> None:
    assert two_ranks.run(save_on_one, str(tmp_path / "run")) == [1, 1]


def resume_warned(rank: int, folder: str, options: Options) -> tuple[list[str], str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        _, digest = train_to_digest(rank, "ddp", folder, options)
    return [str(one.message) for one in seen if one.category is CheckpointWarning], digest


def test_a_part_that_is_damaged_makes_all_ranks_go_on_from_the_one_before(
    two_ranks: Pool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options: Options = {"epochs": 1}
    expected = two_ranks.run(train_to_digest, "ddp", str(tmp_path / "whole"), options)
    cut = cut_after(tmp_path / "whole", 5, tmp_path / "cut")
    part = cut / "save-000005" / "part-00001.safetensors"
    content = bytearray(part.read_bytes())
    content[-1] ^= 1
    part.write_bytes(content)

    verified = main(["checkpoint", "verify", str(cut)])
    found = two_ranks.run(resume_warned, str(cut), options)

    assert verified == 1
    assert "part-00001.safetensors does not match" in capsys.readouterr().out
    assert [digest for _, digest in found] == [digest for _, digest in expected]
    assert "part-00001.safetensors does not match" in found[0][0][0]
    assert "going on from save-000004" in found[0][0][0]


def test_show_and_diff_tell_of_every_part(
    two_ranks: Pool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two_ranks.run(train_to_digest, "fsdp", str(tmp_path / "run"), {"epochs": 1})
    one, other = str(tmp_path / "run/save-000001"), str(tmp_path / "run/save-000002")

    codes = [main(["checkpoint", "show", one]), main(["checkpoint", "diff", one, one])]
    shown = capsys.readouterr().out
    codes.append(main(["checkpoint", "diff", one, other]))

    assert codes == [0, 0, 1]
    assert "part 0, of rank 0" in shown
    assert "part 1, of rank 1" in shown
    assert "state[1]['window']['gradients'][0]['shard']" in capsys.readouterr().out


def break_early(rank: int, folder: str, sync: Sync, fails: bool) -> list[tuple[bool, float | None]]:
    model = wrapped("ddp")
    data = [(torch.randn(2, 6), torch.tensor([0, 1])) for _ in range(6)]
    engine = Engine(
        model, plain_sgd(model.parameters()), sync=sync, checkpoint=folder, progress=False
    )
    told = []
    for window in engine.windows(data, size=3):
        try:
            with window:
                for number, (x, y) in enumerate(window):
                    window.backward(cross_entropy(model(x), y))
                    if rank == 1 and number == 0:
                        if fails:
                            raise ValueError("a bad batch")
                        break
        except ValueError:
            pass
        told.append((window.stepped, window.loss))
        if len(told) == 2:
            break
    return told


@pytest.mark.parametrize(("sync", "fails"), [("last", False), ("last", True), ("every", False)])
def test_a_rank_that_breaks_off_its_window_is_not_waited_for(
    two_ranks: Pool, tmp_path: Path, sync: str, fails: bool
) -> None:
    one, other = two_ranks.run(break_early, str(tmp_path / "run"), sync, fails)

    if not fails:
        assert one == other
    assert [stepped for stepped, _ in one] == [not fails] * 2
    assert [stepped for stepped, _ in other] == [not fails] * 2


class Sample(UserDict[str, Tensor]):
    """As tokenizers make them: a class of its own cannot be kept."""


def trained_on_samples(rank: int, folder: str, counts: list[int]) -> str | None:
    """Why a window took no step, or what the loader has to say."""
    model = wrapped("ddp")
    data = [Sample(x=torch.randn(2, 6), y=torch.tensor([0, 1])) for _ in range(counts[rank])]
    engine = Engine(
        model, plain_sgd(model.parameters()), checkpoint=folder, save_every=1, progress=False
    )
    engine.resume()
    try:
        for window in engine.windows(data):
            with window:
                for one in window:
                    window.backward(cross_entropy(model(one["x"]), one["y"]))
            if window.reason:
                return window.reason
    except LoaderError as error:
        return str(error)
    return None


@pytest.mark.parametrize("counts", [[2, 2], [3, 1]])
def test_batches_that_cannot_be_kept_do_not_hinder_a_save(
    two_ranks: Pool, tmp_path: Path, counts: list[int]
) -> None:
    assert two_ranks.run(trained_on_samples, str(tmp_path / "run"), counts) == [None, None]
    assert list((tmp_path / "run").glob("save-*"))


def test_a_rank_with_nothing_to_be_handed_again_says_why(two_ranks: Pool, tmp_path: Path) -> None:
    two_ranks.run(trained_on_samples, str(tmp_path / "whole"), [3, 1])
    cut_after(tmp_path / "whole", 1, tmp_path / "cut")

    for folder, counts in (("cut", [3, 1]), ("empty", [1, 0])):
        zero, one = two_ranks.run(trained_on_samples, str(tmp_path / folder), counts)

        assert "the loader of rank 1 has no more micro-batches, those of others have" in one
        assert zero.startswith("rank 1 raised LoaderError: the loader of rank 1 has no more")
