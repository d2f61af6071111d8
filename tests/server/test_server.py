"""`gradkeeper server`, driven as an editor drives it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradkeeper.lint import check_source
from gradkeeper.rules import ALL
from tests.server.client import Editor, Message, applied, replaced

pytest.importorskip("pygls", reason="the extra lsp is not installed")

STALE = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    model(x).square().mean().backward()
    optimizer.step()
"""
ZERO = "    optimizer.zero_grad()\n"
CLEAN = STALE + ZERO
LOOP = """\
def train(model, optimizer, data):
    for x in data:
        model(x).square().mean().backward()
        optimizer.step()
"""
CALLER = """\
import torch

from loop import train

model = torch.nn.Linear(4, 1)
train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(6, 8, 4))
"""


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    with Editor(tmp_path) as opened:
        yield opened
    assert opened.code == 0
    assert opened.errors == ""


def said(diagnostics: list[Message]) -> list[tuple[str, int]]:
    return [(one["code"], one["range"]["start"]["line"] + 1) for one in diagnostics]


def actions(editor: Editor, name: str, line: int, only: list[str] | None = None) -> list[Message]:
    place = {"line": line - 1, "character": 4}
    context = {"diagnostics": [], **({"only": only} if only else {})}
    span = {"start": place, "end": place}
    found: list[Message] = editor.ask(
        "textDocument/codeAction", **editor.about(name), range=span, context=context
    )
    return found


def test_a_file_that_was_never_saved_is_checked_as_it_stands(editor: Editor) -> None:
    editor.open("train.py", STALE)

    (found,) = editor.wait_for("train.py")

    assert found["code"] == "GK101"
    assert found["source"] == "gradkeeper"
    assert found["severity"] == 1
    assert found["range"] == {
        "start": {"line": 6, "character": 4},
        "end": {"line": 6, "character": 20},
    }
    assert found["message"].startswith("step() applies the gradient of line 6 a second time\n")
    assert "remedy: optimizer.zero_grad() right after the step" in found["message"]


def test_the_lines_behind_a_finding_are_related_information(editor: Editor) -> None:
    editor.open("train.py", STALE)

    (found,) = editor.wait_for("train.py")

    related = found["relatedInformation"]
    assert [one["location"]["range"]["start"]["line"] + 1 for one in related] == [6, 7]
    assert {one["location"]["uri"] for one in related} == {editor.uri("train.py")}
    assert related[0]["message"] == "this backward's gradient"


def test_what_is_typed_is_checked_once_the_keys_rest(tmp_path: Path) -> None:
    with Editor(tmp_path, pause=400) as editor:
        editor.open("train.py", STALE)
        assert said(editor.wait_for("train.py", 1)) == [("GK101", 7)]

        for version, letter in enumerate(ZERO, 2):
            at = version - 2 if letter != "\n" else len(ZERO) - 1
            editor.type("train.py", version, replaced(7, at, at, letter))

        assert said(editor.wait_for("train.py", len(ZERO) + 1)) == []
        between = [version for _, version in editor.published if version not in (1, len(ZERO) + 1)]
        assert len(between) < len(ZERO) / 2, "not a check for every key"


def test_a_half_written_line_leaves_what_was_said(editor: Editor) -> None:
    editor.open("train.py", STALE)
    editor.wait_for("train.py", 1)

    editor.type("train.py", 2, replaced(7, 0, 0, "    optimizer.zero_grad("))
    editor.tell("textDocument/didSave", **editor.about("train.py"))
    assert said(editor.wait_for("train.py", 2)) == [("GK000", 8)], "a save tells all"
    editor.type("train.py", 3, replaced(7, 24, 24, ")\n"))

    assert said(editor.wait_for("train.py", 3)) == []


def test_a_file_that_does_not_parse_does_not_hold_back_what_is_said_of_another(
    editor: Editor,
) -> None:
    editor.open("broken.py", "def half(:\n")
    assert said(editor.wait_for("broken.py", 1)) == [("GK000", 1)]
    editor.open("train.py", CLEAN)
    assert said(editor.wait_for("train.py", 1)) == []

    editor.type("train.py", 2, {"text": STALE})

    assert said(editor.wait_for("train.py", 2)) == [("GK101", 7)]


def test_a_project_is_one_program_with_its_unsaved_files(editor: Editor) -> None:
    (editor.folder / "loop.py").write_text(LOOP)
    (editor.folder / "main.py").write_text(CALLER)

    editor.open("loop.py", LOOP)
    assert said(editor.wait_for("loop.py")) == [("GK101", 4)]
    editor.open("main.py", CALLER.replace("train(model,", "pass  # train(model,"))
    assert said(editor.wait_for("loop.py", 1)) == [("GK101", 4)], "judged by itself now"
    mended = LOOP + "        optimizer.zero_grad()\n"
    editor.type("loop.py", 2, {"text": mended})

    assert said(editor.wait_for("loop.py", 2)) == []


def test_a_fix_is_a_code_action_that_leaves_nothing_to_find(editor: Editor) -> None:
    editor.open("train.py", STALE)
    editor.wait_for("train.py")

    fix, allow = actions(editor, "train.py", 7)

    assert fix["title"] == "GK101: optimizer.zero_grad() right after the step"
    assert fix["isPreferred"] is True
    assert fix["kind"] == allow["kind"] == "quickfix"
    assert applied(STALE, fix["edit"]["changes"][editor.uri("train.py")]) == CLEAN
    assert fix["diagnostics"][0]["code"] == "GK101"
    assert actions(editor, "train.py", 5) == []


def test_a_suppression_is_one_too(editor: Editor) -> None:
    editor.open("train.py", STALE)
    editor.wait_for("train.py")

    _, allow = actions(editor, "train.py", 7)

    assert allow["title"] == "GK101: allow stale-gradient on this line"
    silenced = applied(STALE, allow["edit"]["changes"][editor.uri("train.py")])
    assert "optimizer.step()  # gradkeeper: allow stale-gradient\n" in silenced
    assert check_source(silenced, "train.py", ALL).findings == []
    editor.type("train.py", 2, {"text": silenced})
    assert said(editor.wait_for("train.py", 2)) == []


def test_a_line_that_a_backslash_ends_is_silenced_from_above(editor: Editor) -> None:
    text = STALE.replace("    optimizer.step()", "    optimizer \\\n        .step()")
    editor.open("train.py", text)
    [(_, line)] = said(editor.wait_for("train.py"))

    allow = actions(editor, "train.py", line)[-1]

    silenced = applied(text, allow["edit"]["changes"][editor.uri("train.py")])
    assert check_source(silenced, "train.py", ALL).findings == []


def test_all_safe_fixes_at_once_for_editors_that_fix_on_save(editor: Editor) -> None:
    two = STALE + STALE.replace("import torch\n", "").replace("optimizer", "other")
    editor.open("train.py", two)
    editor.wait_for("train.py")

    [all_of_them] = actions(editor, "train.py", 1, ["source.fixAll"])

    assert all_of_them["kind"] == "source.fixAll.gradkeeper"
    mended = applied(two, all_of_them["edit"]["changes"][editor.uri("train.py")])
    assert check_source(mended, "train.py", ALL).findings == []
    assert actions(editor, "train.py", 1, ["source.organizeImports"]) == []


def test_the_rule_s_document_is_shown_over_a_finding_and_over_a_comment(editor: Editor) -> None:
    editor.open("train.py", f"# noqa: GK301\n{STALE}")
    editor.wait_for("train.py")

    def over(line: int, character: int) -> str:
        place = {"line": line - 1, "character": character}
        found = editor.ask("textDocument/hover", **editor.about("train.py"), position=place)
        return "" if found is None else str(found["contents"]["value"])

    assert over(8, 6).startswith("# GK101 stale-gradient [error]\n")
    assert "```python\n" in over(8, 6)
    assert over(1, 10).startswith("# GK301 clip-scaled-gradient [error]\n")
    assert over(4, 3) == ""


def test_columns_are_counted_as_the_editor_counts_them(editor: Editor) -> None:
    wide = STALE.replace("    optimizer.step()", "    '\N{SNAKE}é'; optimizer.step()")
    editor.open("train.py", wide)

    (found,) = editor.wait_for("train.py")

    line = wide.splitlines()[6]
    before = line[: line.index("optimizer")]
    assert found["range"]["start"]["character"] == len(before.encode("utf-16-le")) // 2


def test_a_file_that_is_closed_is_spoken_of_no_more(editor: Editor) -> None:
    editor.open("train.py", STALE)
    editor.wait_for("train.py")

    editor.tell("textDocument/didClose", **editor.about("train.py"))

    assert editor.wait_for("train.py") == []

    editor.open("train.py", STALE)
    assert said(editor.wait_for("train.py", 1)) == [("GK101", 7)], "opened again, told again"


def test_the_editor_s_settings_and_the_project_s_choose_rules(tmp_path: Path) -> None:
    with Editor(tmp_path, options={"ignore": ["GK101"]}) as editor:
        editor.open("train.py", STALE)
        assert editor.wait_for("train.py") == []

    (tmp_path / "pyproject.toml").write_text('[tool.gradkeeper]\nignore = ["stale-gradient"]\n')
    with Editor(tmp_path) as editor:
        editor.open("train.py", STALE)
        assert editor.wait_for("train.py") == []


def test_settings_that_cannot_be_are_told_once(tmp_path: Path) -> None:
    with Editor(tmp_path, options={"select": ["GK999"]}) as editor:
        editor.open("train.py", STALE)

        told = editor.wait_for_message()

    assert told.startswith("gradkeeper: no rule has the code or name 'GK999'")


def test_what_is_no_python_file_is_left_alone(editor: Editor) -> None:
    editor.open("notes.txt", STALE)
    editor.open("train.py", STALE)

    assert said(editor.wait_for("train.py")) == [("GK101", 7)]
    assert set(editor.diagnostics) == {"train.py"}


def test_without_pygls_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "pygls.py").write_text("raise ModuleNotFoundError(name='pygls')")

    done = subprocess.run(
        [sys.executable, "-m", "gradkeeper", "server"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr == "gradkeeper server: needs pygls: pip install 'pygls>=2'\n"
