"""Where people zero: counts, over a folder of Python files, the place of zero_grad() in loops.

Usage: scripts/bench conventions [FOLDER ...]

Counted is every innermost loop that calls backward(), step() and zero_grad() in its own body, in
the order in which they stand there, a column for each folder. What a loop calls through helpers is
not seen, nor what stands outside of it.
"""

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

TOP = "at the top, before the forward (Pattern B)"
BETWEEN = "between forward and backward (Pattern A)"
AFTER = "after the step"
LOST = "between backward and step"
SEVERAL = "in several of these places, or in several rounds"
PLACES = (TOP, BETWEEN, AFTER, LOST, SEVERAL)

# Calls that fetch or move a batch: a forward starts behind them.
MOVING = {
    *("to", "cuda", "cpu", "float", "long", "half", "view", "reshape", "unsqueeze"),
    *("next", "get_batch", "sample"),
}


def loops(tree: ast.AST) -> Iterator[ast.For | ast.While]:
    """The innermost loops, in any function or none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.While):
            inner = (one for one in ast.walk(node) if one is not node)
            if not any(isinstance(one, ast.For | ast.While) and _calls(one) for one in inner):
                yield node


def _calls(loop: ast.AST) -> dict[str, list[ast.Call]]:
    found: dict[str, list[ast.Call]] = {}
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("backward", "step", "zero_grad"):
                found.setdefault(node.func.attr, []).append(node)
    return found


def place_of(loop: ast.For | ast.While) -> str | None:
    """Where this loop zeroes; None if it does not hold all three calls."""
    calls = _calls(loop)
    if len(calls) < 3:
        return None
    backward = sorted(call.lineno for call in calls["backward"])
    zeros = sorted(call.lineno for call in calls["zero_grad"])
    steps = [call.lineno for call in _optimizers(calls["step"])]
    if not steps:
        return None
    places = {_place(zero, loop, calls, backward, steps) for zero in zeros}
    return places.pop() if len(places) == 1 else SEVERAL


def _optimizers(steps: list[ast.Call]) -> list[ast.Call]:
    """Without schedulers and environments, as far as names tell."""
    others = ("sched", "env", "prof")
    return [call for call in steps if not any(one in ast.unparse(call.func) for one in others)]


def _place(
    zero: int,
    loop: ast.AST,
    calls: dict[str, list[ast.Call]],
    backward: list[int],
    steps: list[int],
) -> str:
    if zero > backward[-1]:
        return AFTER if min(steps) <= zero else LOST
    if zero > backward[0]:
        return SEVERAL
    first = min(calls["backward"], key=lambda call: call.lineno)
    return TOP if zero <= _forward(loop, first) else BETWEEN


def _forward(loop: ast.AST, backward: ast.Call) -> int:
    """The line on which what backward() gets begins to be computed."""
    assert isinstance(backward.func, ast.Attribute)
    wanted = _names(backward.func.value) | {name for one in backward.args for name in _names(one)}
    line = backward.lineno
    for node in sorted(_assigns(loop), key=lambda one: -one.lineno):
        targets = {name for target in _targets(node) for name in _names(target)}
        if node.value is None or not _computes(node.value):
            continue
        if node.lineno < line and targets & wanted:
            line = node.lineno
            wanted |= _names(node.value)
    return line


def _assigns(loop: ast.AST) -> list[ast.Assign | ast.AugAssign | ast.AnnAssign]:
    kinds = ast.Assign | ast.AugAssign | ast.AnnAssign
    return [node for node in ast.walk(loop) if isinstance(node, kinds)]


def _targets(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _computes(value: ast.AST) -> bool:
    """Whether a call in it may be a forward."""
    calls = [one for one in ast.walk(value) if isinstance(one, ast.Call)]
    return any(ast.unparse(call.func).split(".")[-1] not in MOVING for call in calls)


def count(folder: Path) -> tuple[int, Counter[str]]:
    """How many files could be read, and their loops by place."""
    read = 0
    found: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.py")):
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        read += 1
        found.update(place for place in map(place_of, loops(tree)) if place)
    return read, found


def table(folders: list[Path]) -> Iterator[str]:
    """A column for each folder."""
    counts = [count(folder) for folder in folders]
    widths = [max(10, len(folder.name) + 2) for folder in folders]
    yield _row("", [folder.name for folder in folders], widths)
    yield _row("files", [read for read, _ in counts], widths)
    yield _row("loops", [found.total() for _, found in counts], widths)
    for place in PLACES:
        yield _row(place, [found[place] for _, found in counts], widths)


def _row(name: str, cells: Sequence[object], widths: list[int]) -> str:
    return f"{name:55}" + "".join(
        f"{cell!s:>{width}}" for cell, width in zip(cells, widths, strict=True)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="where people zero")
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("examples")])
    folders = parser.parse_args().folders
    missing = [folder for folder in folders if not folder.is_dir()]
    if missing:
        print(f"no such folder: {missing[0]}", file=sys.stderr)
        return 2
    print("\n".join(table(folders)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
