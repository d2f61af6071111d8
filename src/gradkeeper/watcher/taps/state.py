"""State saved and loaded: torch.save and load, safetensors, load_state_dict."""

import functools
import importlib.util
import io
import os
from collections.abc import Callable
from typing import Any

import torch

from gradkeeper.watcher.patches import Undo, replace, replace_everywhere
from gradkeeper.watcher.taps.call import Calls


def tap(calls: Calls) -> list[Undo]:
    undos = [
        replace_everywhere(torch, "save", functools.partial(_save, calls)),
        replace_everywhere(torch, "load", functools.partial(_load, calls)),
        replace(torch.nn.Module, "load_state_dict", functools.partial(_restore, calls)),
        replace(torch.optim.Optimizer, "load_state_dict", functools.partial(_remember, calls)),
    ]
    if importlib.util.find_spec("safetensors") is not None:
        import safetensors.torch as safe

        undos += [
            replace_everywhere(safe, "save_file", functools.partial(_save, calls)),
            replace_everywhere(safe, "save_model", functools.partial(_save, calls)),
            replace_everywhere(safe, "load_file", functools.partial(_load, calls)),
        ]
    return undos


def _save(calls: Calls, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def save(thing: Any, *args: Any, **options: Any) -> Any:
        recorder = calls.recorder()
        with calls.quietly():
            result = original(thing, *args, **options)
        if recorder is not None:
            target = args[0] if args else options.get("f")
            calls.tell(recorder.saved_state.saved, thing, _path(target))
        return result

    return save


def _load(calls: Calls, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def load(source: Any, *args: Any, **options: Any) -> Any:
        recorder = calls.recorder()
        with calls.quietly():
            loaded = original(source, *args, **options)
        if recorder is not None:
            disk = not isinstance(source, io.BytesIO)
            path = _path(source)
            calls.tell(recorder.saved_state.loaded.add, loaded, disk=disk, path=path)
        return loaded

    return load


def _restore(calls: Calls, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def load_state_dict(self: torch.nn.Module, state_dict: Any, *args: Any, **options: Any) -> Any:
        recorder = calls.recorder()
        with calls.quietly():
            result = original(self, state_dict, *args, **options)
        if recorder is not None:
            calls.tell(recorder.saved_state.restored, self, state_dict)
        return result

    return load_state_dict


def _remember(calls: Calls, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def load_state_dict(self: torch.optim.Optimizer, state_dict: Any) -> Any:
        recorder = calls.recorder()
        result = original(self, state_dict)
        if recorder is not None:
            calls.tell(recorder.saved_state.remembers, self)
        return result

    return load_state_dict


def _path(target: object) -> str:
    """The file that something is read from or written to; empty where there is none to name."""
    if not isinstance(target, (str, os.PathLike)):
        target = getattr(target, "name", "")
    return os.path.realpath(target) if isinstance(target, (str, os.PathLike)) and target else ""
