"""Names that the user would recognise: variables from the source, parameters from their modules."""

import linecache
import re
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.optim import Optimizer

from gradkeeper.model import Site
from gradkeeper.source_line import Sites
from gradkeeper.torch_private import own_children, own_parameters
from gradkeeper.watcher import search

TARGET = re.compile(r"(?:^|;)\s*([A-Za-z_][\w.]*(?:\[[^\]=]*\])?)\s*(?::[^=;]+)?=\s*$")
USED = re.compile(r"^([A-Za-z_][\w.]*(?:\[[^\]]*\])?)\.(?:step|zero_grad)\(")
RECEIVER = re.compile(r"^([A-Za-z_][\w.]*(?:\[[^\]]*\])?)\.\w+\(")
ARGUMENT = re.compile(r"\(\s*([A-Za-z_][\w.]*(?:\[[^\]]*\])?)\s*[,)]")

# Looking through all objects takes tens of milliseconds: never more of the run than this share.
SHARE = 0.01


class UserNames:
    """Gives each object one name, and no name twice while it lasts."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._taken: set[str] = set()

    def unique(self, wish: str) -> str:
        name, count = wish, 1
        while name in self._taken:
            count += 1
            name = f"{wish}#{count}"
        self._taken.add(name)
        return name

    def release(self, name: str) -> None:
        self._taken.discard(name)

    def target(self, site: Site) -> str | None:
        """`opt` of a line such as `opt = Adam(...)`."""
        line = linecache.getline(site.file, site.line)
        return _first(TARGET, line.encode()[: site.column - 1].decode(errors="replace"))

    def used(self, site: Site) -> str | None:
        """`opt` of `opt.step()` or `opt.zero_grad()`."""
        return _first(USED, self._sites.text(site))

    def receiver(self, site: Site) -> str | None:
        """`scaler` of an expression such as `scaler.update()`."""
        return _first(RECEIVER, self._sites.text(site))

    def argument(self, site: Site) -> str | None:
        """`opt` of an expression such as `scaler.step(opt)`."""
        return _first(ARGUMENT, self._sites.text(site))


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found.group(1) if found else None


def variable_of(optimizer: Optimizer, frame: FrameType | None) -> str | None:
    """The variable that holds it, where the user's code is: for what was built before the watch."""
    if frame is None:
        return None
    for variables in (search.variables_of(frame), frame.f_globals):
        for name, value in list(variables.items()):
            # By type, not isinstance: that may run code of lazy proxies.
            if name.startswith("_") or not issubclass(type(value), Optimizer):
                continue
            if value is optimizer or inner_optimizer(value) is optimizer:
                return name
    return None


def inner_optimizer(optimizer: Optimizer) -> Optimizer:
    """The optimizer itself, where a framework has wrapped it (accelerate, Lightning)."""
    held = vars(optimizer)
    inner = held.get("optimizer") or held.get("_optimizer")
    return inner if isinstance(inner, Optimizer) else optimizer


class ModulePlace(NamedTuple):
    """Where a module holds a parameter."""

    parameter: weakref.ref[torch.Tensor]
    path: str
    training: bool
    embedding: bool


class ModuleMap:
    """Which module holds a parameter, and under what path."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._spent = 0.0
        self._places: dict[int, ModulePlace] = {}

    def learn(
        self,
        parameters: list[torch.Tensor],
        variables: Mapping[str, Any],
        near: Callable[[], Iterable[Any]] = tuple,
    ) -> None:
        """Looks again if one of these is not known yet: at modules that lie near, then at all of
        them, unless that has cost too much already. A module that a variable holds is called like
        it."""
        if all(self._place(parameter) for parameter in parameters):
            return
        self._look(near(), variables)
        if all(self._place(parameter) for parameter in parameters):
            return
        began = time.monotonic()
        if self._spent > SHARE * (began - self._started) and self._spent > 0.2:
            return
        self._places.clear()
        self._look(search.everywhere(), variables)
        self._spent += time.monotonic() - began

    def _look(self, objects: Iterable[Any], variables: Mapping[str, Any]) -> None:
        # By type, not isinstance: that may run code of lazy proxies.
        modules = [thing for thing in objects if issubclass(type(thing), torch.nn.Module)]
        children = {id(child) for module in modules for child in own_children(module).values()}
        names = {id(value): name for name, value in variables.items() if not name.startswith("_")}
        walked: set[int] = set()
        for root in modules:
            if id(root) not in children:
                self._walk(root, names.get(id(root), type(root).__name__), walked)

    def _walk(self, root: torch.nn.Module, name: str, walked: set[int]) -> None:
        """`walked`: parameters of modules that came before, which keep the name they have."""
        waiting = [(name, root)]
        seen: set[int] = set()
        while waiting:
            path, module = waiting.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            embedding = isinstance(module, torch.nn.Embedding)
            for own, parameter in own_parameters(module).items():
                if id(parameter) not in walked:
                    walked.add(id(parameter))
                    self._places[id(parameter)] = ModulePlace(
                        weakref.ref(parameter), f"{path}.{own}", module.training, embedding
                    )
            for own, child in own_children(module).items():
                waiting.append((f"{path}.{own}", child))

    def _place(self, parameter: torch.Tensor) -> ModulePlace | None:
        place = self._places.get(id(parameter))
        return place if place is not None and place.parameter() is parameter else None

    def path(self, parameter: torch.Tensor) -> str | None:
        place = self._place(parameter)
        return place.path if place else None

    def is_fixed(self, parameter: torch.Tensor) -> bool:
        """Its module was put into eval mode, so nobody means to train it."""
        place = self._place(parameter)
        return place is not None and not place.training

    def is_weight(self, parameter: torch.Tensor) -> bool:
        """A module's parameter other than an embedding: a network is being trained."""
        place = self._place(parameter)
        return place is not None and not place.embedding


def common_path(paths: list[str]) -> str:
    """The longest module path that all of these share."""
    parts = [path.split(".") for path in paths]
    shared: list[str] = []
    for level in zip(*parts, strict=False):
        if len(set(level)) != 1:
            break
        shared.append(level[0])
    return ".".join(shared)
