"""State saved and loaded: torch.save and load, safetensors, load_state_dict."""

import functools
import importlib.util
import io
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
            calls.tell(recorder.saved_state.saved, thing)
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
            calls.tell(recorder.saved_state.loaded.add, loaded, disk=disk)
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
