"""Takes the pictures in docs/images anew: the terminal as SVG, statements as PNG.

Usage: python docs/screenshots.py (needs torch, chromium and chromedriver: scripts/_browser).
"""

import os
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from docs.browser import browsing, is_here  # noqa: E402  (run as a file, it is in no package)

IMAGES = ROOT / "docs" / "images"
SCRIPTS = ROOT / "docs" / "shown"
PICTURES = {
    "statement-clean.png": ("clean.py", "", "light"),
    "statement-findings.png": ("five_findings.py", "", "light"),
    "statement-gan.png": ("gan.py", "", "dark"),
    "statement-long.png": ("long.py", "document.querySelector('#all').click()", "light"),
}
HEIGHT = 860
TONES = {"1;31": "#ff8a80", "1;33": "#f2c260", "1;32": "#6fd39a", "1": "#ffffff", "2": "#8a94a3"}
PAINTED = re.compile(r"\x1b\[([\d;]+)m(.*?)\x1b\[0m")


def gradkeeper(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "gradkeeper", *words],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "", "FORCE_COLOR": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"gradkeeper {' '.join(words)} failed:\n{done.stdout}")
    return done.stdout


def terminal(command: str, output: str) -> str:
    """What a terminal shows, as an SVG that any page can hold."""
    lines = [f"\x1b[1m$ {command}\x1b[0m", *output.rstrip().splitlines()]
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
        f' fill="#d6dbe3" xml:space="preserve">{rows}</g></svg>\n'
    )


def _spans(line: str) -> str:
    parts = []
    place = 0
    for found in PAINTED.finditer(line):
        parts.append(escape(line[place : found.start()]))
        parts.append(f'<tspan fill="{TONES[found[1]]}">{escape(found[2])}</tspan>')
        place = found.end()
    return "".join([*parts, escape(line[place:])])


def photograph(browser: Any, page: Path, picture: Path, act: str, theme: str) -> None:
    browser.set_window_size(1200, HEIGHT)
    browser.get(page.as_uri())
    browser.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
    if act:
        browser.execute_script(act)
    browser.save_screenshot(str(picture))


def main() -> int:
    if not is_here():
        print("needs chromium and chromedriver: scripts/_browser", file=sys.stderr)
        return 2
    IMAGES.mkdir(exist_ok=True)
    with TemporaryDirectory() as name, browsing() as browser:
        folder = Path(name)
        for script in SCRIPTS.glob("*.py"):
            (folder / script.name).write_text(script.read_text())
        shown = gradkeeper(folder, "check", "six_lines.py")
        (IMAGES / "terminal.svg").write_text(terminal("gradkeeper check six_lines.py", shown))
        for picture, (script_name, act, theme) in PICTURES.items():
            gradkeeper(folder, "run", "--norms", "--report", "page.html", script_name)
            photograph(browser, folder / "page.html", IMAGES / picture, act, theme)
    return 0


if __name__ == "__main__":
    sys.exit(main())
