"""Source that only a later Python can read is no error of its author's."""

import sys

import pytest

from gradkeeper.lint.check import check_bytes
from gradkeeper.lint.parsing import needed, unparsable

NEWER = {
    (3, 12): [
        "x = f'{a['b']}'\n",
        'x = f"{", ".join(b)} and {c:>{d["w"]}}"\n',
        "x = f'{a + '\\n'}'\n",
        "type Pair[T] = tuple[T, T]\n",
        "def f[T: (int, str)](x: T) -> list[T]:\n    return [x]\n",
        "class A[T](B[T]):\n    def f[U](self, x: U) -> U: ...\n",
    ],
    (3, 14): [
        "try:\n    f()\nexcept KeyError, ValueError:\n    pass\n",
        "x = t'{a}'\n",
        "class A[T]:\n    try:\n        f()\n    except A, B:\n        x = f'{a['b']}'\n",
    ],
}
BROKEN = [
    "def f(:\n",
    "print 'x'\n",
    "try:\n    print 'x'\nexcept KeyError, error:\n    pass\n",
    "x = f'{'\n",
    "x = f'{a}' + (\n",
    "type = = 3\n",
    "",
]


@pytest.mark.parametrize(
    ("version", "code"), [(v, one) for v, codes in NEWER.items() for one in codes]
)
def test_newer_syntax_is_known_with_its_version(version: tuple[int, int], code: str) -> None:
    assert needed(code, running=(3, 11)) == version


@pytest.mark.parametrize("code", BROKEN)
def test_what_no_python_reads_is_a_fault(code: str) -> None:
    assert needed(code, running=(3, 11)) is None


def test_nothing_is_newer_than_a_python_that_has_it_all() -> None:
    assert [
        code for codes in NEWER.values() for code in codes if needed(code, running=(3, 14))
    ] == []


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python can read it")
def test_it_is_a_warning_that_says_what_to_run() -> None:
    code = NEWER[3, 14][0]
    with pytest.raises(SyntaxError) as error:
        compile(code, "new.py", "exec")

    found = unparsable(error.value, "new.py", code)

    here = "{}.{}".format(*sys.version_info)
    assert (found.rule, str(found.severity), found.site.line) == ("GK000", "warning", 3)
    assert found.message == f"needs Python 3.14 to be read; gradkeeper runs on {here} here"
    assert found.remedy == "run gradkeeper with Python 3.14 or newer"


def test_a_link_that_git_wrote_as_a_path_is_no_program() -> None:
    assert check_bytes(b"../zipformer/optim.py", "optim.py").findings == []
