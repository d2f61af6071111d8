"""The reference of the engine's public names, made of signatures and docstrings.

In a docstring, a parameter is documented by a line that begins with its name and a colon.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from gradkeeper.engine import Engine, Window, errors

ENTRY = re.compile(r"^(\w+): (.*(?:\n {4,}.*)*)", re.M)
CLASSES = (Engine, Window)
INNER: dict[type, tuple[str, ...]] = {Window: ("state", "resumable", "credited", "credits", "kept")}
"""Public among the engine's own files only."""


def page() -> str:
    lines = [
        "# Reference: the engine",
        "",
        "Generated from the docstrings. How it is used: [the engine](guide/engine.md), "
        "[exact resume](guide/resume.md), [weights](guide/weights.md), "
        "[several ranks](guide/ranks.md).",
        "",
    ]
    for kind in CLASSES:
        lines += [f"## {kind.__name__}", ""]
        if kind is Engine:
            lines += _function(kind, "Engine")
        else:
            lines += [summary(kind), ""]
        for name, one in attributes(kind):
            lines += [f"### {kind.__name__}.{name}", "", summary(one.fget), ""]
        for name, one in methods(kind):
            lines += [f"### {kind.__name__}.{name}", "", *_function(one, name)]
    lines += ["## What is refused", "", "```text", inspect.getdoc(errors) or "", "```", ""]
    return "\n".join(lines)


def _function(function: Callable[..., Any], name: str) -> list[str]:
    lines = [_signature(function, name), "", summary(function), ""]
    told = entries(function)
    for parameter in parameters(function):
        default = "" if parameter.default is parameter.empty else f" = `{parameter.default!r}`"
        lines += [f"- **{parameter.name}**{default}: {told[parameter.name]}"]
    return [*lines, ""] if told else lines


def _signature(function: Callable[..., Any], name: str) -> str:
    shown = ", ".join(
        one.name if one.default is one.empty else f"{one.name}={one.default!r}"
        for one in parameters(function)
    )
    return f"```text\n{name}({shown})\n```"


def methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, one in _public(kind):
        if inspect.isfunction(one):
            yield name, one


def attributes(kind: type) -> Iterator[tuple[str, Any]]:
    for name, one in _public(kind):
        if isinstance(one, property):
            yield name, one


def _public(kind: type) -> Iterator[tuple[str, Any]]:
    for name, one in vars(kind).items():
        if not name.startswith("_") and name not in INNER.get(kind, ()):
            yield name, one


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    found = inspect.signature(function).parameters.values()
    return [one for one in found if one.name != "self"]


def entries(function: Callable[..., Any]) -> dict[str, str]:
    """What the docstring says of each parameter."""
    text = inspect.getdoc(function) or ""
    return {name: re.sub(r"\s+", " ", words).strip() for name, words in ENTRY.findall(text)}


def summary(thing: Any) -> str:
    """The docstring without its parameters."""
    return ENTRY.sub("", inspect.getdoc(thing) or "").strip()
