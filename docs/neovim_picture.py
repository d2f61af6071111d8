"""Takes the picture of a finding in Neovim anew: docs/images/neovim.svg.

Usage: python docs/neovim_picture.py    needs Neovim, pygls and pyte
"""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from docs.screenshots import IMAGES, terminal  # noqa: E402  (run as a file, it is in no package)

COLUMNS, LINES = 96, 18
PATIENCE = 60
SETTINGS = """
vim.o.number = true
vim.o.laststatus = 0
vim.o.signcolumn = "yes"
local client = vim.lsp.start_client({
  name = "gradkeeper",
  cmd = { vim.env.PYTHON, "-m", "gradkeeper", "server" },
  root_dir = vim.fn.getcwd(),
})
vim.lsp.buf_attach_client(0, client)
vim.api.nvim_create_autocmd("DiagnosticChanged", {
  callback = function()
    if #vim.diagnostic.get(0) > 0 then
      vim.api.nvim_win_set_cursor(0, { 8, 4 })
      vim.defer_fn(function() vim.diagnostic.open_float({ border = "rounded" }) end, 200)
    end
  end,
})
"""
TONES = {"red": "1;31", "brown": "1;33", "brightred": "1;31", "green": "1;32"}


def screen_of(folder: Path, shown: str) -> Any:
    """Neovim's screen, once it shows these words."""
    import pyte

    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    child, terminal_of = pty.fork()
    if not child:
        os.chdir(folder)
        size = {"COLUMNS": str(COLUMNS), "LINES": str(LINES), "TERM": "xterm"}
        os.environ.update(size, PYTHON=sys.executable)
        os.execlp(
            "nvim", "nvim", "-u", "NONE", "-i", "NONE", "-n", "-S", "settings.lua", "train.py"
        )
    fcntl.ioctl(terminal_of, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    limit = time.monotonic() + PATIENCE
    quiet = 0.0
    while time.monotonic() < limit and quiet < 1.5:
        if select.select([terminal_of], [], [], 0.1)[0]:
            stream.feed(os.read(terminal_of, 65536))
        quiet = quiet + 0.1 if any(shown in line for line in screen.display) else 0.0
    os.write(terminal_of, b"\x1b:qa!\r")
    os.waitpid(child, 0)
    return screen


def painted(screen: Any) -> str:
    lines = []
    for row in range(LINES):
        parts = []
        for column in range(COLUMNS):
            cell = screen.buffer[row][column]
            tone = TONES.get(cell.fg)
            parts.append(
                f"\x1b[{tone}m{cell.data}\x1b[0m" if tone and cell.data != " " else cell.data
            )
        lines.append("".join(parts).rstrip())
    return "\n".join(lines).rstrip()


def main() -> int:
    with TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "train.py").write_text((ROOT / "docs" / "shown" / "six_lines.py").read_text())
        (folder / "settings.lua").write_text(SETTINGS)
        screen = screen_of(folder, "remedy")
    (IMAGES / "neovim.svg").write_text(terminal("nvim train.py", painted(screen)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
