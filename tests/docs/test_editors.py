"""What the page about editors tells to write can be read, and fits what the commands print."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gradkeeper.cli import build_parser, main
from tests.cli.test_also import STALE

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "editors.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)


def test_settings_name_a_command_that_is_there() -> None:
    [helix] = map(tomllib.loads, blocks("toml"))
    zed, _ = map(json.loads, blocks("json"))

    server = helix["language-server"]["gradkeeper"]
    binary = zed["lsp"]["pylsp"]["binary"]

    for command, words in (
        (server["command"], server["args"]),
        (binary["path"], binary["arguments"]),
    ):
        assert command == "gradkeeper"
        build_parser(words).parse_args(words)


def test_the_task_finds_place_code_and_message_in_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [task] = json.loads(blocks("json")[1])["tasks"]
    command, *words = task["command"].split()
    assert command == "gradkeeper"
    assert build_parser(words).parse_args(words).watch
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(STALE)
    main(["check", "--color", "never", "."])
    printed = capsys.readouterr().out.splitlines()

    place, line, message = (
        re.match(part["regexp"], text)
        for part, text in zip(task["problemMatcher"]["pattern"], printed, strict=False)
    )

    assert place
    assert place.groups() == ("train.py", "7", "5", "GK101")
    assert line
    assert message
    assert message[1] == "step() applies the gradient of line 6 a second time"


OPENED = """
local function found_in(file)
  vim.cmd("edit " .. file)
  vim.wait(120000, function() return #vim.diagnostic.get(0) > 0 end, 50)
  return #vim.diagnostic.get(0)
end
local found = { found_in("one.py"), found_in("two.py") }
local servers = #(vim.lsp.get_clients or vim.lsp.get_active_clients)()
io.stdout:write(table.concat({ found[1], found[2], servers }, " "))
vim.cmd("qa!")
"""


@pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not here (Debian: neovim)")
def test_with_these_settings_one_server_tells_neovim_of_both_files(tmp_path: Path) -> None:
    pytest.importorskip("pygls", reason="the extra lsp is not installed")
    [settings] = blocks("lua")
    (tmp_path / "init.lua").write_text(settings)
    (tmp_path / "opened.lua").write_text(OPENED)
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(STALE)

    done = subprocess.run(
        ["nvim", "--headless", "-u", "init.lua", "-i", "NONE", "-n", "-c", "luafile opened.lua"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.stdout == "1 1 1", done.stderr
