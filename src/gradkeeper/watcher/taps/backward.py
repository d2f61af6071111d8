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
            keeper = here.keeper or calls.keeper()
            if keeper is None:
                return original(self, gradient, retain_graph, create_graph, inputs)
            crediting = keeper.crediting
            try:
                crediting.begins([self], gradient)
            except Exception as error:
                calls.stop(error)
            try:
                # It calls torch.autograd.backward, which is tapped too, for those who call it.
                crediting.silent = True
                result = original(self, gradient, retain_graph, create_graph, inputs)
            except BaseException:
                crediting.silent = False
                calls.tell(crediting.fails)
                raise
            crediting.silent = False
            try:
                crediting.ends()
            except Exception as error:
                calls.stop(error)
            return result

        return backward

    def function(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(tensors: Any, *args: Any, **options: Any) -> Any:
            keeper = here.keeper or calls.keeper()
            if keeper is None:
                return original(tensors, *args, **options)
            if keeper.crediting.silent:
                # Only the first call inside belongs to `Tensor.backward`; the next are nested.
                keeper.crediting.silent = False
                return original(tensors, *args, **options)
            several = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
            gradient = args[0] if args else options.get("grad_tensors")
            if isinstance(gradient, Sequence) and len(gradient) == 1:
                gradient = gradient[0]
            calls.tell(keeper.crediting.begins, several, gradient)
            try:
                result = original(several, *args, **options)
            except BaseException:
                calls.tell(keeper.crediting.fails)
                raise
            calls.tell(keeper.crediting.ends)
            return result

        return backward

    return [
        replace(torch.Tensor, "backward", method),
        replace(torch.autograd, "backward", function),
        replace(DistributedDataParallel, "forward", functools.partial(_forward, calls)),
    ]


def _forward(calls: Calls, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def forward(self: DistributedDataParallel, *inputs: Any, **options: Any) -> Any:
        keeper = calls.keeper()
        if keeper is None:
            return original(self, *inputs, **options)
        inside = calls.tell(keeper.ddp_begins, self)
        result = original(self, *inputs, **options)
        if inside:
            calls.tell(keeper.ddp_ends, inside)
        return result

    return forward
