import subprocess
import sys

import pytest

from gradkeeper import __version__
from gradkeeper.cli import COMMANDS, load, main


def test_an_unknown_command_or_option_exits_with_2() -> None:
    for arguments in (["nonsense"], ["rules", "--nonsense"]):
        with pytest.raises(SystemExit) as stop:
            main(arguments)

        assert stop.value.code == 2


def test_who_names_no_command_is_shown_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2

    told = capsys.readouterr().err
    assert all(load(name).HELP.split()[0] in told and name in told for name in COMMANDS)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "check --frmat json a.py",
            "gradkeeper check: there is no option --frmat; did you mean --format?",
        ),
        (
            "check --basline=old.json",
            "gradkeeper check: there is no option --basline; did you mean --baseline?",
        ),
        ("check --nonsense", "gradkeeper check: there is no option --nonsense"),
        ("rules more", "gradkeeper rules: too many words: more"),
        (
            "run --nomrs train.py",
            "gradkeeper run: there is no option --nomrs; did you mean --norms?",
        ),
        (
            "checkpoint show --nonsense runs",
            "gradkeeper checkpoint show: there is no option --nonsense",
        ),
        ("--versoin", "gradkeeper: there is no option --versoin; did you mean --version?"),
        ("chek src", "gradkeeper: there is no command chek; did you mean gradkeeper check?"),
        ("nonsense", "gradkeeper: there is no command nonsense"),
        (
            "watch train.py",
            "gradkeeper: there is no command watch; "
            "did you mean gradkeeper run or gradkeeper check --watch?",
        ),
        (
            "/dev/null",
            "gradkeeper: there is no command /dev/null; did you mean gradkeeper check /dev/null?",
        ),
    ],
)
def test_a_wrong_word_is_answered_with_what_was_probably_meant_and_one_line_of_usage(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(words.split())

    assert stop.value.code == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == told
    assert second.startswith("usage: gradkeeper ")
    assert second.endswith(" --help tells more)")


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        with pytest.raises(SystemExit) as stop:
            main([name, "--help"])

        assert stop.value.code == 0
        assert load(name).HELP.split()[0] in capsys.readouterr().out


def test_a_command_goes_by_the_name_of_its_module() -> None:
    assert [load(name).NAME for name in COMMANDS] == list(COMMANDS)


def test_one_command_does_not_wait_for_the_others() -> None:
    code = (
        "import sys; from gradkeeper.cli import build_parser; build_parser(['check']); "
        "print(*(one for one in sys.modules if one.startswith('gradkeeper.cli.')))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    commands = {f"gradkeeper.cli.{name.replace('-', '_')}" for name in COMMANDS}
    assert set(done.stdout.split()) & commands == {"gradkeeper.cli.check"}


def test_it_runs_as_a_module_too() -> None:
    command = [sys.executable, "-m", "gradkeeper", "--version"]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == f"gradkeeper {__version__}\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m gradkeeper rules | head -1"

    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("GK000")
    assert done.stderr == ""
