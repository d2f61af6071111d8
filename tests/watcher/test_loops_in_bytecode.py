"""Loops are read from bytecode, which each Python writes in its own way."""

from pathlib import Path
from types import CodeType

import pytest

from gradkeeper.model.events import Batch, EpochEnd
from gradkeeper.watcher.loops import find_loops
from tests.watcher.loops import run

LOOPS = """\
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        use(x, y)
while waiting:
    waiting -= 1
for a, b in loader:
    use(b)
for q in loader:
    use(q)
"""
FOUND = [(1, ("epoch",)), (2, ("i", "x", "y")), (5, ()), (6, ("a", "b")), (8, ("q",))]


def found(code: CodeType) -> list[tuple[int, tuple[str, ...]]]:
    loops = sorted(find_loops(code), key=lambda loop: loop.start)
    return [(loop.line, loop.targets) for loop in loops]


def test_the_loops_of_a_script_have_their_lines_and_variables() -> None:
    assert found(compile(LOOPS, "train.py", "exec")) == FOUND


def test_the_loops_of_a_function_have_theirs() -> None:
    """Whose variables are kept otherwise, and stored two at a time by newer Pythons."""
    body = "".join(f"    {line}\n" for line in LOOPS.splitlines())
    variables: dict[str, object] = {}
    exec(compile(f"def train(loader, waiting):\n{body}", "train.py", "exec"), variables)

    code = variables["train"].__code__  # type: ignore[attr-defined]

    assert found(code) == [(line + 1, targets) for line, targets in FOUND]


def test_a_loop_too_long_for_one_byte_has_its_variables_too() -> None:
    many = "\n".join(f"        first{number} = x + y" for number in range(100))
    text = f"for epoch in range(3):\n    for x, y in pairs:\n{many}\n"

    loops = sorted(find_loops(compile(text, "long.py", "exec")), key=lambda loop: loop.start)

    assert [(loop.line, loop.targets) for loop in loops] == [(1, ("epoch",)), (2, ("x", "y"))]


def test_a_loop_that_is_left_for_its_next_round_by_two_ways_is_one() -> None:
    text = """\
while True:
    try:
        use(x)
    except RuntimeError:
        continue
    x -= 1
"""

    assert len(found(compile(text, "train.py", "exec"))) == 1


def test_no_loop_goes_round_between_a_scaler_and_its_step(tmp_path: Path) -> None:
    loop = run(
        tmp_path,
        """
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler("cpu")
        for x in torch.randn(4, 8, 4):
            optimizer.zero_grad()
            scaler.scale(model(x).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
    )

    assert sum(isinstance(event, Batch) for event in loop.watch.tape) == 4


HANDED_IN = """
def train(data, last):
    for i, x in enumerate(data):
        (model(x).square().mean() / 3).backward()
        if i % 3 == 2:
            last()

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
move = lambda: {move}
train(torch.randn(5, 8, 4), move)
"""


def test_a_loop_steps_from_its_first_round_on_by_a_function_that_it_was_handed(
    tmp_path: Path,
) -> None:
    steps = run(tmp_path, HANDED_IN.format(move="(optimizer.step(), optimizer.zero_grad())"))
    prints = run(tmp_path, HANDED_IN.format(move="print()"))

    rounds = [
        sum(isinstance(event, Batch) for event in loop.watch.tape) for loop in (steps, prints)
    ]
    assert rounds == [5, 0]
    assert steps.found == [f"GK203:{steps.line('backward')}"]


EPOCHS = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = [torch.randn(8, 4) for _ in range({batches})]
count = 0
for epoch in range(3):
    optimizer.zero_grad()
    for x in batches:
        (model(x).square().mean() / 3).backward()
        count += 1
        if count % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(("batches", "tails"), [(4, 1), (3, 0)])
def test_a_loop_has_ended_when_the_one_around_it_goes_round(
    tmp_path: Path, batches: int, tails: int
) -> None:
    """What its last window lacks is told where it is zeroed, though none is open at the end."""
    loop = run(tmp_path, EPOCHS.format(batches=batches))

    assert sum(isinstance(event, EpochEnd) for event in loop.watch.tape) == 2
    assert loop.found == [f"GK203:{loop.line('backward')}"] * tails
