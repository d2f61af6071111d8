"""Batches of a window that are all fetched before the first is used: by a framework, or by a
generator of the program's own."""

import sys
from pathlib import Path

import pytest

from tests.watcher.loops import run

FRAMEWORK = """
def one_ahead(loader):
    batches = iter(loader)
    waiting = next(batches)
    for batch in batches:
        yield waiting
        waiting = batch
    yield waiting


def groups(loader, size, ahead):
    batches = one_ahead(loader) if ahead else iter(loader)
    while True:
        group = []
        for batch in batches:
            group.append(batch)
            if len(group) == size:
                break
        if not group:
            return
        yield group
"""
LOOP = """
{code}

data = torch.utils.data.DataLoader(torch.randn(88, 4), batch_size=8)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(3):
    for group in groups(data, {size}, {ahead}):
        {use}
        optimizer.step()
        optimizer.zero_grad()
"""
WRONG = {
    "not divided": """
        for x in group:
            model(x).square().mean().backward()
""",
    "not divided, each twice as large": """
        for x in group:
            model(torch.cat([x, x])).square().mean().backward()
""",
    "a tail divided by too much": """
        for x in group:
            (model(x).square().mean() / SIZE).backward()
""",
}
RIGHT = {
    "divided": """
        for x in group:
            (model(x).square().mean() / len(group)).backward()
""",
    "put together": """
        model(torch.cat(group)).square().mean().backward()
""",
    "put together, several losses": """
        x = torch.cat(group)
        for place in range(2):
            model(x)[:, place].square().mean().backward()
""",
    "several losses of the first": """
        for place in range(2):
            model(group[0])[:, place].square().mean().backward()
""",
    "sums": """
        for x in group:
            (model(x).square().sum() / 8 / SIZE).backward()
""",
}


@pytest.fixture(autouse=True)
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "framework.py").write_text(FRAMEWORK)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "framework", raising=False)


def written(use: str, size: int, *, ahead: bool, own: bool = False) -> str:
    code = FRAMEWORK if own else "from framework import groups"
    use = use.strip().replace("SIZE", str(size))
    return LOOP.format(code=code, use=use, size=size, ahead=ahead)


@pytest.mark.parametrize("ahead", [False, True], ids=["", "one ahead"])
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("name", WRONG)
def test_each_backward_has_its_batch(name: str, size: int, ahead: bool, tmp_path: Path) -> None:
    loop = run(tmp_path, written(WRONG[name], size, ahead=ahead))

    rule = "GK202" if "tail" in name else "GK201"
    assert loop.found == [f"{rule}:{loop.line('optimizer.step')}"]


@pytest.mark.parametrize("ahead", [False, True], ids=["", "one ahead"])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("name", RIGHT)
def test_losses_that_share_their_data_are_of_one_batch(
    name: str, size: int, ahead: bool, tmp_path: Path
) -> None:
    assert run(tmp_path, written(RIGHT[name], size, ahead=ahead)).found == []


@pytest.mark.parametrize("name", WRONG)
def test_each_backward_has_its_batch_of_an_own_generator(name: str, tmp_path: Path) -> None:
    loop = run(tmp_path, written(WRONG[name], 2, ahead=False, own=True))

    rule = "GK202" if "tail" in name else "GK201"
    assert loop.found == [f"{rule}:{loop.line('optimizer.step')}"]


@pytest.mark.parametrize("name", RIGHT)
def test_losses_of_one_batch_of_an_own_generator(name: str, tmp_path: Path) -> None:
    assert run(tmp_path, written(RIGHT[name], 2, ahead=False, own=True)).found == []


IN_A_ROW = """
data = torch.utils.data.DataLoader(torch.randn(88, 4), batch_size=8)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
rest = iter(data)
for _ in range(5):
    group = [next(rest) for _ in range(2)]
    {use}
    optimizer.step()
    optimizer.zero_grad()
"""


def in_a_row(use: str) -> str:
    body = "\n".join(line.removeprefix("    ") for line in use.strip("\n").splitlines())
    return IN_A_ROW.format(use=body.strip().replace("SIZE", "2"))


def test_each_backward_has_its_batch_of_those_fetched_in_a_row(tmp_path: Path) -> None:
    loop = run(tmp_path, in_a_row(WRONG["not divided"]))

    assert loop.found == [f"GK201:{loop.line('optimizer.step')}"]


@pytest.mark.parametrize("name", RIGHT)
def test_losses_of_one_batch_of_those_fetched_in_a_row(name: str, tmp_path: Path) -> None:
    assert run(tmp_path, in_a_row(RIGHT[name])).found == []
