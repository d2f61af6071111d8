"""A state laid out for its folder: values as JSON, tensors as blocks of memory."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gradkeeper.checkpoint import tensor_file
from gradkeeper.checkpoint.encoding import encode
from gradkeeper.checkpoint.layout import Block, View, lay_out

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Image:
    """Shows the state's own memory: to be written before anything changes it, or to be copied."""

    tree: Any
    views: dict[str, View]
    blocks: list[Block]

    @property
    def size(self) -> int:
        return sum(block.size for block in self.blocks)

    def copied_to(self, memory: "torch.Tensor") -> "Image":
        """The same, in bytes that nobody else writes to."""
        copies = []
        start = 0
        for block in self.blocks:
            place = memory[start : start + block.size]
            place.copy_(block.memory)
            copies.append(replace(block, memory=place))
            start += block.size
        return replace(self, blocks=copies)


def image_of(state: Any) -> Image:
    encoded = encode(state)
    blocks, views = lay_out(encoded.tensors)
    return Image(encoded.tree, views, tensor_file.in_order(blocks))
