"""Cells of a notebook: their code has a made-up file name, and the user knows them as In[n]."""

import linecache
import sys

from gradkeeper.model.site import CELL


def cell_of(name: str) -> str | None:
    """What the user calls it, if code of this file name is a cell of the IPython that runs."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    known = shell.compile.format_code_name(name) if shell is not None else None
    if known is None:
        return None
    cell: str = CELL + known[1].removeprefix("In")
    if name in linecache.cache:
        # Whoever shows the line asks for it by the name that is shown.
        linecache.cache[cell] = linecache.cache[name]
    return cell
