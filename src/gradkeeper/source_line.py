"""The user's line that led here: frames of ours, of the standard library and of installed packages
are passed over. A line of accelerate says nothing to the person who called it.

The engine asks now and then, by `user_site`. The watcher asks at every tap: `Sites` remembers.
"""

import linecache
import os
import sys
import sysconfig
from itertools import islice
from types import CodeType, FrameType

from gradkeeper.model import Site
from gradkeeper.model.site import CELL

NOWHERE = Site("<unknown>", 1)
# Code that is made anew by exec in a loop must not fill memory.
MOST_SITES = 8192

OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""The package's folder."""
_PASSED = (OURS, sysconfig.get_path("stdlib") + os.sep)

_users: dict[str, bool] = {}
# By the address of the code, which the value keeps alive: hashing code is slow.
_known: dict[tuple[int, int], tuple[CodeType, Site]] = {}


def user_site(depth: int = 1) -> Site:
    """`depth`: so many of the nearest frames are known to be ours, and need not be looked at."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        file = frame.f_code.co_filename
        if _users.get(file) or is_users(file):
            break
        frame = frame.f_back
    return NOWHERE if frame is None else site_of(frame)


def calling_site(folder: str) -> Site | None:
    """For what wraps a function of torch: the user's line that called it, None if a file of ours in
    that folder did.

    The nearest two frames are this one's and the wrapper's.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(folder):
            return None
        if _users.get(file) or is_users(file):
            return site_of(frame)
        frame = frame.f_back
    return NOWHERE


def spoken(site: Site) -> str:
    """Where it is, as one would say it in the folder that the program runs in."""
    here = os.getcwd() + os.sep
    return f"{site.file.removeprefix(here)}:{site.line}"


def is_users(file: str) -> bool:
    known = _users.get(file)
    if known is None:
        path = os.path.abspath(file)
        library = "site-packages" in path or "dist-packages" in path or file.startswith("<frozen")
        known = _users[file] = not library and not path.startswith(_PASSED)
    return known


def site_of(frame: FrameType) -> Site:
    key = (id(frame.f_code), frame.f_lasti)
    known = _known.get(key)
    if known is None:
        if len(_known) >= MOST_SITES:
            _known.clear()
        known = _known[key] = (frame.f_code, _site(frame))
    return known[1]


def _site(frame: FrameType) -> Site:
    code = frame.f_code
    _, _, column, _ = position_of(frame)
    file = code.co_filename
    return Site(
        file=file if file.startswith("<") else os.path.abspath(file),
        line=frame.f_lineno,
        column=(column or 0) + 1,
        function=code.co_qualname,
    )


def position_of(frame: FrameType) -> tuple[int | None, int | None, int | None, int | None]:
    """Of what runs in a frame: its first and last line, its first and last column."""
    positions = islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    return next(positions, (None, None, None, None))


# For the watcher, which also shows the expression at a site, and cells of a notebook by their name.


class Sites:
    """Finds and remembers sites. `own` are folders that count as the user's wherever they lie."""

    def __init__(self, own: tuple[str, ...] = ()) -> None:
        self._own = own
        self._libraries = _library_folders()
        self.known: dict[str, bool] = {}
        """Whether a file is the user's."""
        # By the address of the code, which the value keeps alive: hashing code is slow.
        self._sites: dict[tuple[int, int], tuple[CodeType, Site]] = {}
        self._texts: dict[Site, tuple[int, int]] = {}

    def is_user(self, code: CodeType) -> bool:
        name = code.co_filename
        known = self.known.get(name)
        if known is None:
            known = self.known[name] = self._judge(name)
        return known

    def _judge(self, name: str) -> bool:
        if name.startswith("<frozen"):
            return False
        path = os.path.abspath(name)
        if any(path.startswith(folder) for folder in self._own):
            return True
        return is_users(name) and not path.startswith(self._libraries)

    def here(self) -> Site:
        """The user's line that runs now."""
        frame = self.frame()
        return NOWHERE if frame is None else self.of(frame)

    def frame(self) -> FrameType | None:
        """The innermost frame of the user's."""
        frame: FrameType | None = sys._getframe(2)
        known = self.known
        while frame is not None:
            mine = known.get(frame.f_code.co_filename)
            if mine or (mine is None and self.is_user(frame.f_code)):
                return frame
            frame = frame.f_back
        return None

    def arrived(self) -> tuple[FrameType | None, Site]:
        """The innermost frame of the user's and its site: `frame` and `of` in one, for speed."""
        frame: FrameType | None = sys._getframe(2)
        known, sites = self.known, self._sites
        while frame is not None:
            code = frame.f_code
            mine = known.get(code.co_filename)
            if mine or (mine is None and self.is_user(code)):
                found = sites.get((id(code), frame.f_lasti))
                return frame, found[1] if found is not None else self.of(frame)
            frame = frame.f_back
        return None, NOWHERE

    def of(self, frame: FrameType) -> Site:
        key = (id(frame.f_code), frame.f_lasti)
        known = self._sites.get(key)
        if known is not None:
            return known[1]
        if len(self._sites) >= MOST_SITES:
            self._sites.clear()
            self._texts.clear()
        site = self._locate(frame)
        self._sites[key] = (frame.f_code, site)
        return site

    def _locate(self, frame: FrameType) -> Site:
        code = frame.f_code
        line, end_line, column, end_column = position_of(frame)
        name = code.co_filename
        file = cell_of(name) or (name if name.startswith("<") else os.path.abspath(name))
        site = Site(file, line or frame.f_lineno, (column or 0) + 1, code.co_qualname)
        if end_line is not None and end_column is not None:
            self._texts[site] = (end_line, end_column)
        return site

    def text(self, site: Site) -> str:
        """The expression at a site, or what its line holds from there on."""
        line = linecache.getline(site.file, site.line)
        end_line, end_column = self._texts.get(site, (site.line + 1, 0))
        if end_line != site.line:
            return line[site.column - 1 :].strip()
        # Columns of code are bytes.
        return line.encode()[site.column - 1 : end_column].decode(errors="replace")


def _library_folders() -> tuple[str, ...]:
    """Beside those that `is_users` passes over."""
    import torch

    paths = sysconfig.get_paths()
    torchs = os.path.dirname(os.path.abspath(torch.__file__))
    return tuple(folder + os.sep for folder in {paths["purelib"], paths["platlib"], torchs})


def cell_of(name: str) -> str | None:
    """What the user calls it, if code of this file name is a cell of the IPython that runs."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    known = shell.compile.format_code_name(name) if shell is not None else None
    if known is None:
        return None
    cell: str = CELL + known[1].removeprefix("In")
    if name in linecache.cache and not _is_magic(name):
        # Whoever shows the line asks for it by the name that is shown.
        linecache.cache[cell] = linecache.cache[name]
    return cell


def _is_magic(name: str) -> bool:
    """A cell magic counts as its cell twice: as the one line that IPython makes of it, which nobody
    wrote, and as the body that this line runs."""
    return linecache.getline(name, 1).startswith("get_ipython().run_cell_magic(")
