"""A character-level transformer on Python's own help texts.

Texts have different lengths, so micro-batches hold different numbers of characters. Each loss is a
mean over its own; weighed by their number, a window of eight is one big batch, padding left out.
Given a folder, it can be killed at any time: `python examples/characters.py runs/a`, again.
"""

import sys
from pydoc_data.topics import topics
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader

from gradkeeper import Engine

LONGEST = 96
IGNORED = -100


class Reader(nn.Module):
    """Predicts each next character from those before it; texts follow one another."""

    def __init__(self, characters: int, width: int = 32) -> None:
        super().__init__()
        self.table = nn.Embedding(characters, width)
        self.place = nn.Embedding(LONGEST, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, characters)

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        hidden = self.table(x) + self.place(torch.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        read = self.layers(hidden, mask, is_causal=True)
        scores: Tensor = self.out(read.flatten(0, 1))
        return scores


def texts() -> tuple[list[Tensor], int]:
    """The paragraphs of all topics, as numbers."""
    paragraphs = [part for topic in topics.values() for part in topic.split("\n\n")]
    kept = [part.strip()[:LONGEST] for part in paragraphs if len(part.strip()) > 8][:256]
    alphabet = sorted(set("".join(kept)))
    number = {character: place for place, character in enumerate(alphabet)}
    return [torch.tensor([number[one] for one in part]) for part in kept], len(alphabet)


def collate(parts: list[Tensor]) -> tuple[Tensor, Tensor]:
    x = pad_sequence([part[:-1] for part in parts], batch_first=True)
    y = pad_sequence([part[1:] for part in parts], batch_first=True, padding_value=IGNORED)
    return x, y


def main(epochs: int = 4, folder: str | None = None) -> list[float]:
    """With a folder, it saves every 4 steps there, and goes on from there when it is run again."""
    torch.manual_seed(0)
    numbers, characters = texts()
    dataset: Any = numbers
    loader: DataLoader[Tensor] = DataLoader(dataset, batch_size=4, shuffle=True, collate_fn=collate)
    model = Reader(characters)
    optimizer = AdamW(model.parameters(), lr=0.01)
    scheduler = OneCycleLR(optimizer, 0.01, total_steps=8 * epochs + 1)
    engine = Engine(
        model,
        optimizer,
        scheduler=scheduler,
        clip_norm=1.0,
        checkpoint=folder,
        save_every=None if folder is None else 4,
    )
    losses: list[float] = engine.track("losses", [])
    if folder is not None and engine.resume():
        print(f"going on after {engine.steps['optimizer']} steps")
    for window in engine.windows(loader, size=8, epochs=epochs):
        with window:
            for x, y in window:
                loss = cross_entropy(model(x), y.flatten(), ignore_index=IGNORED)
                window.backward(loss, weight=(y != IGNORED).sum())
        losses.append(window.loss or 0.0)
    print(f"{engine.steps['optimizer']} steps, loss {losses[0]:.2f} -> {losses[-1]:.2f}")
    return losses


if __name__ == "__main__":
    main(folder=sys.argv[1] if len(sys.argv) > 1 else None)
