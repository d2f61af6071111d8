"""The Pythons on which the linter's tests pass.

Usage: scripts/bench pythons PYTHON...

Each interpreter gets an environment of its own without torch, with the package installed as a
user would, and runs those tests of the linter, the rules, the ledger and the reports that need
nothing but pytest and what it brings. Needs an index to install pytest from.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
SUITES = ("lint", "rules", "model", "report")
TOOLS = ("pytest", "hypothesis", "jsonschema")
AT_HAND = {*TOOLS, "_pytest", *sys.stdlib_module_names}
COUNT = re.compile(r"(\d+) (passed|failed|skipped|error)")


def imported(file: Path) -> Iterator[str]:
    """What a test needs before it can begin: its imports outside of functions."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def ours(name: str) -> Path | None:
    """The file of a module of the package or of the tests, if it is one."""
    for folder in (ROOT, ROOT / "src"):
        stem = folder.joinpath(*name.split("."))
        for file in (stem.with_suffix(".py"), stem / "__init__.py"):
            if file.exists():
                return file
    return None


def needs_more(file: Path, seen: set[Path]) -> bool:
    """Whether a file, or one that it imports, cannot begin with what is at hand."""
    if file in seen:
        return False
    seen.add(file)
    for name in imported(file):
        inner = ours(name)
        if inner is not None and needs_more(inner, seen):
            return True
        if inner is None and name.split(".")[0] not in {*AT_HAND, "gradkeeper", "tests"}:
            return True
    return False


def suites() -> tuple[list[Path], list[Path]]:
    """The test files that can be run, and those that need torch or a browser."""
    files = [one for name in SUITES for one in sorted((ROOT / "tests" / name).rglob("test_*.py"))]
    left_out = [one for one in files if needs_more(one, set())]
    return [one for one in files if one not in left_out], left_out


def call(*words: str | Path) -> str:
    done = subprocess.run(
        [str(word) for word in words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def built(folder: str) -> Path:
    """The wheel, once for all: builds side by side would write into the same folder."""
    told = call(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, ".")
    wheel = next(Path(folder).glob("*.whl"), None)
    if wheel is None:
        raise SystemExit(f"no wheel could be built:\n{told}")
    return wheel


def row(python: str, wheel: Path, tests: list[Path]) -> str:
    version = call(python, "-c", "import platform; print(platform.python_version())").strip()
    with TemporaryDirectory() as folder:
        call(python, "-m", "venv", "--without-pip", folder)
        inner = Path(folder) / "bin" / "python"
        pins = ("--constraint", "constraints.txt")
        told = call(sys.executable, "-m", "pip", "--python", inner, "install", *pins, wheel, *TOOLS)
        if "Successfully installed" not in told:
            raise SystemExit(f"{python}: nothing could be installed:\n{told}")
        told = call(inner, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", *tests)
    counts = {what: number for number, what in COUNT.findall(told.splitlines()[-1])}
    if "failed" in counts or "error" in counts:
        print(told, file=sys.stderr)
    columns = [counts.get(what, "0") for what in ("passed", "skipped", "failed", "error")]
    return f"| {version} | {' | '.join(columns)} |"


def main(pythons: list[str]) -> int:
    if not pythons:
        print("usage: scripts/bench pythons PYTHON...", file=sys.stderr)
        return 2
    tests, left_out = suites()
    print("| Python | passed | skipped | failed | errors |\n|---|---|---|---|---|", flush=True)
    with TemporaryDirectory() as folder, ThreadPoolExecutor() as side_by_side:
        wheel = built(folder)
        for told in side_by_side.map(lambda python: row(python, wheel, tests), pythons):
            print(told, flush=True)
    print(f"\n{len(tests)} files of tests; {len(left_out)} more need torch or a browser.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
