"""`backward()`; `autograd.grad`, which feeds no `.grad`; DistributedDataParallel's forward, which
decides whether the backward after it exchanges gradients; and `all_reduce`, for those who do so
themselves.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from gradkeeper.watcher.fast_path import ABOVE_TAP
from gradkeeper.watcher.patches import Undo, replace, replace_everywhere
from gradkeeper.watcher.taps.call import Calls

ABOVE_METHOD = ABOVE_TAP + 1
"""`Tensor.backward` it is, mostly, that calls with one tensor; else the long way is taken."""


def tap(calls: Calls) -> list[Undo]:
    return [
        # `Tensor.backward` calls it too.
        replace(torch.autograd, "backward", functools.partial(_backward, calls)),
        replace_everywhere(torch.autograd, "grad", functools.partial(_grad, calls), traceable=True),
        replace(DistributedDataParallel, "forward", functools.partial(_forward, calls)),
        replace(DistributedDataParallel, "__init__", functools.partial(_wrap, calls)),
        *_all_reduces(calls),
    ]


def _backward(calls: Calls, original: Callable[..., Any]) -> Callable[..., Any]:
    here = calls.here

    @functools.wraps(original)
    def backward(
        tensors: Any,
        grad_tensors: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        grad_variables: Any = None,
        inputs: Any = None,
    ) -> Any:
        recorder = here.recorder or calls.recorder()
        if recorder is None:
            return original(
                tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs
            )
        backwards = recorder.backwards
        backwards.retains = create_graph or retain_graph
        if isinstance(tensors, Tensor):
            losses, above = [tensors], ABOVE_METHOD
        else:
            above = ABOVE_TAP
            if not isinstance(tensors, (tuple, list)):
                tensors = tuple(tensors)
            losses = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
        gradient = grad_tensors
        # To ask whether None is a sequence takes as long as the rest of this.
        if gradient is not None and isinstance(gradient, Sequence) and len(gradient) == 1:
            gradient = gradient[0]
        try:
            backwards.begins(losses, gradient, above)
        except Exception as error:
            calls.stop(error)
        try:
            result = original(
                tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs
            )
        except BaseException:
            calls.tell(backwards.fails)
            raise
        try:
            backwards.ends()
        except Exception as error:
            calls.stop(error)
        return result

    return backward


def _grad(calls: Calls, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def grad(outputs: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        result = original(outputs, inputs, *args, **options)
        recorder = None if torch.compiler.is_compiling() else calls.recorder()
        if recorder is not None:
            asked = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
            calls.tell(recorder.backwards.asked_for, asked)
        return result

    return grad


def _all_reduces(calls: Calls) -> list[Undo]:
    if not torch.distributed.is_available():
        return []
    make = functools.partial(_all_reduce, calls)
    return [replace_everywhere(torch.distributed, "all_reduce", make, traceable=True)]


def _all_reduce(calls: Calls, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def all_reduce(tensor: Any, *args: Any, **options: Any) -> Any:
        recorder = None if torch.compiler.is_compiling() else calls.recorder()
        if recorder is not None and recorder.sync.several and isinstance(tensor, torch.Tensor):
            calls.tell(recorder.summed, tensor)
        return original(tensor, *args, **options)

    return all_reduce


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
