"""DistributedDataParallel's forward, where it is decided whether ranks will exchange gradients."""

import functools
from collections.abc import Callable
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from gradkeeper.watcher.patches import Undo, replace
from gradkeeper.watcher.taps.call import Calls


def tap(calls: Calls) -> list[Undo]:
    return [replace(DistributedDataParallel, "forward", functools.partial(_forward, calls))]


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
