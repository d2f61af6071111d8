"""Puts beside the playground what it loads: Pyodide, from its npm package, and our sources.

Usage: python docs/playground_files.py [PACKAGE.tgz]    without a package, npm fetches it

Neither is kept in the repository. With both there, the page needs no other server.
"""

import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "playground"
PYODIDE = "314.0.7"
LOADED = (
    "package.json",
    "pyodide-lock.json",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "pyodide.mjs",
    "python_stdlib.zip",
)
PARTS = ("model", "rules", "lint", "report")
"""Of the package: what the linter and the statement are made of."""
LONG_AGO = (1980, 1, 1, 0, 0, 0)


def sources() -> bytes:
    """The linter as a zip, the same for the same sources."""
    package = ROOT / "src" / "gradkeeper"
    files = [package / "__init__.py"]
    for part in PARTS:
        files += [one for one in sorted((package / part).rglob("*")) if one.is_file()]
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            if "__pycache__" not in file.parts:
                entry = zipfile.ZipInfo(str(file.relative_to(package.parent)), LONG_AGO)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, file.read_bytes())
    return raw.getvalue()


def is_here() -> bool:
    """Whether Pyodide is, in the version that the page is tested with."""
    known = PAGE / "pyodide" / "package.json"
    return known.exists() and f'"version": "{PYODIDE}"' in known.read_text()


def unpack(package: Path) -> None:
    (PAGE / "pyodide").mkdir(exist_ok=True)
    with tarfile.open(package) as archive:
        for name in LOADED:
            member = archive.extractfile(f"package/{name}")
            assert member, name
            (PAGE / "pyodide" / name).write_bytes(member.read())


def fetch() -> None:
    with TemporaryDirectory() as folder:
        words = ["npm", "pack", "--silent", f"pyodide@{PYODIDE}"]
        subprocess.run(words, cwd=folder, capture_output=True, timeout=300, check=True)
        unpack(next(Path(folder).glob("*.tgz")))


def main(words: list[str]) -> int:
    (PAGE / "gradkeeper.zip").write_bytes(sources())
    if words:
        unpack(Path(words[0]))
    elif not is_here():
        try:
            fetch()
        except (OSError, subprocess.SubprocessError) as error:
            print(f"Pyodide could not be fetched ({error}): no playground", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
