"""Takes the pictures of statements in docs/images anew, and knows how a terminal is drawn.

Usage: python docs/screenshots.py [PICTURE...]    needs torch, poppler and Chromium
"""

import os
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from docs.browser import browsing, is_here  # noqa: E402  (run as a file, it is in no package)
from gradkeeper.lint import check_source  # noqa: E402
from gradkeeper.rules import ALL  # noqa: E402

IMAGES = ROOT / "docs" / "images"
SCRIPTS = ROOT / "docs" / "shown"
FIRST_OF_README = "examples/exchanged_too_early.py"
FIRST_PICTURE = "found.svg"
LINES_ABOVE = 6
NEXT_FINDING = "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'n'}))"
TO_TIMELINE = "document.querySelector('#time').scrollIntoView()"
PRINTED = "statement-print.png"


class Picture(NamedTuple):
    script: str
    theme: str = "light"
    width: int = 1200
    height: int = 1010
    ranks: int = 1
    norms: bool = True
    act: str = ""
    """Script that the page runs first."""


PICTURES = {
    "statement-clean.png": Picture("clean.py"),
    "statement-findings.png": Picture("five_findings.py", height=1180, norms=False),
    "statement-gan.png": Picture("gan.py", theme="dark", height=860),
    "statement-long.png": Picture("long.py", height=1180),
    "statement-zoomed.png": Picture("long.py", height=860, act=NEXT_FINDING),
    "statement-ranks.png": Picture("ranks.py", ranks=2),
    "statement-unsynced.png": Picture(FIRST_OF_README, width=800, height=790, ranks=2, norms=False),
    "statement-phone.png": Picture("five_findings.py", width=390, height=844, act=TO_TIMELINE),
}
TONES = {"1;31": "#ff8a80", "1;33": "#f2c260", "1;32": "#6fd39a", "1": "#ffffff", "2": "#8a94a3"}
PAINTED = re.compile(r"\x1b\[([\d;]+)m(.*?)\x1b\[0m")


def run(folder: Path, *words: str) -> str:
    """What a module prints, for a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "", "FORCE_COLOR": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stdout}")
    return done.stdout


def terminal(command: str, output: str) -> str:
    """What a terminal shows, as an SVG that any page can hold."""
    return drawn([f"\x1b[1m$ {command}\x1b[0m", *output.rstrip().splitlines()])


def found_in(script: Path) -> str:
    """A script's only finding, under the lines that lead to it: README begins with one."""
    source = script.read_text()
    name = script.relative_to(ROOT).as_posix()
    (found,) = check_source(source, name, ALL).findings
    code = source.splitlines()
    first = max(0, found.line - LINES_ABOVE - 1)
    return drawn(
        [
            f"\x1b[1m{name}:{found.line}\x1b[0m  \x1b[1;31m{found.rule} {found.name}\x1b[0m",
            *(
                f"\x1b[2m{number:5} |\x1b[0m {line}"
                for number, line in enumerate(code[first : found.line], first + 1)
            ),
            f"\x1b[2m      |\x1b[0m {' ' * (found.column - 1)}\x1b[1;31m^ {found.message}\x1b[0m",
        ]
    )


def drawn(lines: list[str]) -> str:
    width = 24 + 8 * max(len(PAINTED.sub(r"\2", line)) for line in lines)
    height = 28 + 20 * len(lines)
    rows = "".join(
        f'<text x="16" y="{34 + 20 * number}">{_spans(line)}</text>'
        for number, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
        f'<rect width="{width}" height="{height}" rx="8" fill="#14181f"/>'
        '<g font-family="ui-monospace, DejaVu Sans Mono, Menlo, monospace" font-size="13"'
        f' fill="#d6dbe3">{rows}</g></svg>\n'
    )


def _spans(line: str) -> str:
    parts = []
    place = 0
    for found in PAINTED.finditer(line):
        parts.append(_kept(line[place : found.start()]))
        parts.append(f'<tspan fill="{TONES[found[1]]}">{_kept(found[2])}</tspan>')
        place = found.end()
    return "".join([*parts, _kept(line[place:])])


def _kept(text: str) -> str:
    """With spaces that no browser folds; of `xml:space` they think differently."""
    return escape(text).replace(" ", "&#160;")


def photograph(browser: Any, page: Path, file: Path, picture: Picture) -> None:
    size = {"width": picture.width, "height": picture.height}
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {**size, "deviceScaleFactor": 1, "mobile": False}
    )
    browser.get(page.as_uri())
    browser.execute_script("document.documentElement.dataset.theme = arguments[0]", picture.theme)
    browser.execute_script(picture.act)
    browser.save_screenshot(str(file))


def print_first_page(browser: Any, page: Path, file: Path) -> None:
    """As it comes out of a printer: PDF, and poppler's picture of it."""
    browser.get(page.as_uri())
    paper = {"paperWidth": 8.27, "paperHeight": 11.69}
    pdf = page.with_suffix(".pdf")
    pdf.write_bytes(b64decode(browser.execute_cdp_cmd("Page.printToPDF", paper)["data"]))
    subprocess.run(
        ["pdftoppm", "-png", "-r", "90", "-singlefile", str(pdf), str(file.with_suffix(""))],
        timeout=60,
        check=True,
    )


def write_statement(folder: Path, picture: Picture) -> Path:
    launcher = ["torch.distributed.run", "--standalone", f"--nproc-per-node={picture.ranks}", "-m"]
    command = ["gradkeeper", "run", "--exit-zero", *["--norms"] * picture.norms]
    words = [*(launcher if picture.ranks > 1 else []), *command]
    run(folder, *words, "--report", "page.html", picture.script)
    return folder / "page.html"


def main(wanted: list[str]) -> int:
    """Takes all pictures, or those named."""
    if not is_here() or shutil.which("pdftoppm") is None:
        print("needs chromium, chromedriver (scripts/_browser) and poppler", file=sys.stderr)
        return 2
    IMAGES.mkdir(exist_ok=True)
    with TemporaryDirectory() as place, browsing() as browser:
        folder = Path(place)
        for script in SCRIPTS.glob("*.py"):
            (folder / script.name).write_text(script.read_text())
        (folder / FIRST_OF_README).parent.mkdir()
        (folder / FIRST_OF_README).write_text((ROOT / FIRST_OF_README).read_text())
        for name, picture in PICTURES.items():
            if not wanted or name in wanted:
                photograph(browser, write_statement(folder, picture), IMAGES / name, picture)
        if wanted:
            return 0
        page = write_statement(folder, Picture("five_findings.py"))
        print_first_page(browser, page, IMAGES / PRINTED)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
