"""`Tensor.backward` and `torch.autograd.backward`; and DistributedDataParallel's forward, where it
is decided whether the next backward will exchange gradients.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from gradkeeper.watcher.patches import Undo, replace
from gradkeeper.watcher.taps.call import Calls


def tap(calls: Calls) -> list[Undo]:
    here = calls.here

    def method(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(
            self: torch.Tensor,
            gradient: Any = None,
            retain_graph: bool | None = None,
            create_graph: bool = False,
            inputs: Any = None,
        ) -> Any:
            recorder = here.recorder or calls.recorder()
            if recorder is None:
                return original(self, gradient, retain_graph, create_graph, inputs)
            backwards = recorder.backwards
            backwards.retains = create_graph or bool(retain_graph)
            try:
                backwards.begins([self], gradient)
            except Exception as error:
                calls.stop(error)
            try:
                # It calls torch.autograd.backward, which is tapped too, for those who call it.
                backwards.silent = True
                result = original(self, gradient, retain_graph, create_graph, inputs)
            except BaseException:
                backwards.silent = False
                calls.tell(backwards.fails)
                raise
            backwards.silent = False
            try:
                backwards.ends()
            except Exception as error:
                calls.stop(error)
            return result

        return backward

    def function(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(tensors: Any, *args: Any, **options: Any) -> Any:
            recorder = here.recorder or calls.recorder()
            if recorder is None:
                return original(tensors, *args, **options)
            if recorder.backwards.silent:
                # Only the first call inside belongs to `Tensor.backward`; the next are nested.
                recorder.backwards.silent = False
                return original(tensors, *args, **options)
            several = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
            gradient = args[0] if args else options.get("grad_tensors")
            if isinstance(gradient, Sequence) and len(gradient) == 1:
                gradient = gradient[0]
            # Whatever it was asked to retain, its graph is not looked at again.
            recorder.backwards.retains = True
            calls.tell(recorder.backwards.begins, several, gradient)
            try:
                result = original(several, *args, **options)
            except BaseException:
                calls.tell(recorder.backwards.fails)
                raise
            calls.tell(recorder.backwards.ends)
            return result

        return backward

    return [
        replace(torch.Tensor, "backward", method),
        replace(torch.autograd, "backward", function),
        replace(DistributedDataParallel, "forward", functools.partial(_forward, calls)),
        replace(DistributedDataParallel, "__init__", functools.partial(_wrap, calls)),
    ]


def _wrap(calls: Calls, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def init(self: DistributedDataParallel, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        recorder = calls.recorder()
        if recorder is not None:
            calls.tell(recorder.sync.wrapped, self)

    return init


def _forward(calls: Calls, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def forward(self: DistributedDataParallel, *inputs: Any, **options: Any) -> Any:
        recorder = calls.recorder()
        if recorder is None:
            return original(self, *inputs, **options)
        inside = calls.tell(recorder.ddp_begins, self)
        result = original(self, *inputs, **options)
        if inside:
            calls.tell(recorder.ddp_ends, inside)
        return result

    return forward
