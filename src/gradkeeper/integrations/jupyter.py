"""Jupyter and IPython: cells under watch, and a note when a re-run cell drops an optimizer.

    %load_ext gradkeeper

    %%gradkeeper --ignore GK203 --on-finding raise
    for x, y in loader:
        ...

A cell that begins with `%%gradkeeper` runs under watch, and what was found is shown below it, with
the lines of cells named as `cell In[3] line 2`. `--on-finding` is "warn" (shown, the default),
"raise" (FindingError at the line) or "record" (only kept). The watch of the last such cell is
`_gradkeeper`. Any other watch is shown as what it found, too, when it is the last line of a cell.

Once loaded, it also tells when a cell that builds an optimizer is run again and the new one trains
on where the old one stopped: what the old one remembered (momentum, Adam's averages) is lost, and a
scheduler that was not built again still steers the old one.
"""

import ast
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import output_can_be_silenced
from IPython.core.magic_arguments import MagicArgumentParser
from IPython.display import display

from gradkeeper.integrations.ignoring import codes_of
from gradkeeper.integrations.rebuilt import Rebuilt
from gradkeeper.watcher.session import CHOICES, ignore
from gradkeeper.watching import Watch

NAME = "gradkeeper"
KEPT = "_gradkeeper"

_loaded: WeakKeyDictionary[InteractiveShell, Rebuilt] = WeakKeyDictionary()


def load_ipython_extension(shell: InteractiveShell) -> None:
    magic = output_can_be_silenced(partial(run_watched, shell))
    shell.magics_manager.register_function(magic, "cell", NAME)
    rebuilt = _loaded[shell] = Rebuilt(shell)
    rebuilt.begin()


def unload_ipython_extension(shell: InteractiveShell) -> None:
    shell.magics_manager.magics["cell"].pop(NAME, None)
    _loaded.pop(shell).end()


def run_watched(shell: InteractiveShell, line: str, cell: str) -> object:
    """`%%gradkeeper`: the value of the cell, as without it."""
    asked = _parser().parse_argstring(line)
    try:
        ignored = codes_of(asked.ignore)
    except ValueError as error:
        raise UsageError(str(error)) from None
    watch = Watch(on_finding="raise" if asked.on_finding == "raise" else "record")
    shell.user_ns[KEPT] = watch
    finished = False
    try:
        with ignore(*ignored), watch:
            value = run(shell, cell)
        finished = True
    finally:
        if asked.on_finding == "warn" and (finished or watch.findings):
            display(watch)
    return value


def _parser() -> Any:
    parser = MagicArgumentParser(f"%%{NAME}", add_help=False)
    parser.add_argument("--on-finding", choices=CHOICES, default="warn")
    parser.add_argument("--ignore", default="", metavar="CODES")
    return parser


def run(shell: InteractiveShell, cell: str) -> object:
    """Runs a cell's body as the shell would; the value of its last expression."""
    # As many lines down as on the screen: IPython drops empty ones, and the magic's is the first.
    dropped = cell[: len(cell) - len(cell.lstrip())].count("\n")
    source = "\n" * (dropped + 1) + shell.transform_cell(cell)
    # Not execution_count, which some versions of IPython raise before the cell runs.
    number = len(shell.user_ns["In"]) - 1
    name = shell.compile.cache(source, number, raw_code=source)
    body = shell.transform_ast(shell.compile.ast_parse(source, name)).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    compiled: Callable[..., Any] = shell.compile
    exec(compiled(ast.Module(body, []), name, "exec"), shell.user_ns)
    if last is None:
        return None
    return eval(compiled(ast.Expression(last.value), name, "eval"), shell.user_ns)
