"""Forwards of a sharded model whose backward is still to come.

A rank that fails between the two, or leaves the loss out, runs that backward with zeros: the others
are in theirs, where each waits for all. Kept are the edges of the graph, not the outputs, which may
be large.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils._pytree import tree_leaves

from gradkeeper.engine.ranks.nothing import only_zeros_reach


class End(NamedTuple):
    """Where a backward enters the graph."""

    edge: GradientEdge
    shape: torch.Size
    dtype: torch.dtype
    device: torch.device


class Forwards:
    def __init__(self) -> None:
        self._ends: list[End] = []
        self._inside = False
        """One has begun, and not come to its end: it may have failed."""

    def begin(self) -> None:
        self._inside = True

    def end(self, outputs: Any) -> None:
        self._inside = False
        for one in tree_leaves(outputs):
            if isinstance(one, Tensor) and one.requires_grad:
                self._ends.append(End(get_gradient_edge(one), one.shape, one.dtype, one.device))

    def forget(self) -> None:
        self._ends = []
        self._inside = False

    @property
    def waiting(self) -> bool:
        return bool(self._ends) and not self._inside

    def run_backward(self, leaves: list[Tensor]) -> bool:
        """Of nothing; False where that cannot be done."""
        if not self.waiting:
            return False
        ends, self._ends = self._ends, []
        zeros = [torch.zeros(end.shape, dtype=end.dtype, device=end.device) for end in ends]
        try:
            with only_zeros_reach(leaves):
                torch.autograd.backward([end.edge for end in ends], zeros)
        except Exception:  # an older torch takes no edges; or the graph is gone, or the others are
            return False
        return True
