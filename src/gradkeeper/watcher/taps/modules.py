"""Modules that are given another part, or another parameter: a head that is replaced in mid-run."""

from typing import Any

from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from gradkeeper.torch_private import keep_from_compiler
from gradkeeper.watcher.patches import Undo
from gradkeeper.watcher.taps.call import Calls


def tap(calls: Calls) -> list[Undo]:
    here = calls.here

    @keep_from_compiler
    def registered(module: Any, name: str, part: Any) -> None:
        recorder = here.recorder
        if recorder is not None:
            recorder.backwards.look_again()

    handles = (
        register_module_module_registration_hook(registered),
        register_module_parameter_registration_hook(registered),
    )
    return [handle.remove for handle in handles]
