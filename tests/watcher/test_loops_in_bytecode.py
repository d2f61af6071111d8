"""Loops are read from bytecode, which each Python writes in its own way."""

from pathlib import Path
from types import CodeType

from gradkeeper.model.events import Batch
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
