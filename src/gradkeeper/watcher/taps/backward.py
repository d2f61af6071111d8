"""`Tensor.backward` and `torch.autograd.backward`."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradkeeper.watcher.patches import Undo, replace
from gradkeeper.watcher.taps.call import Calls


def tap(calls: Calls) -> list[Undo]:
    def method(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(
            self: torch.Tensor,
            gradient: Any = None,
            retain_graph: bool | None = None,
            create_graph: bool = False,
            inputs: Any = None,
        ) -> Any:
            keeper = calls.keeper()
            if keeper is None:
                return original(self, gradient, retain_graph, create_graph, inputs)
            crediting = keeper.crediting
            calls.tell(crediting.begins, [self], gradient)
            try:
                # It calls torch.autograd.backward, which is tapped too, for those who call it.
                crediting.silent += 1
                result = original(self, gradient, retain_graph, create_graph, inputs)
            except BaseException:
                calls.tell(crediting.fails)
                raise
            finally:
                crediting.silent = max(0, crediting.silent - 1)
            calls.tell(crediting.ends)
            return result

        return backward

    def function(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(tensors: Any, *args: Any, **options: Any) -> Any:
            keeper = calls.keeper()
            if keeper is None or keeper.crediting.silent:
                if keeper is not None:
                    # Only the first call inside belongs to `Tensor.backward`; the next are nested.
                    keeper.crediting.silent = 0
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
    ]
