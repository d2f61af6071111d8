"""float16 with a loss scale: an overflow skips the window, says so, and lowers the scale."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR

from gradkeeper import Engine

# As in contrastive losses: it makes gradients so large that the first scales, from 65,536 on,
# overflow float16.
TEMPERATURE = 0.02


def main(epochs: int = 6) -> tuple[list[float], int]:
    torch.manual_seed(0)
    x = torch.randn(512, 16)
    y = (x[:, :4].sum(dim=1) > 0).long()
    loader = list(zip(x.split(32), y.split(32), strict=True))
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = AdamW(model.parameters(), lr=0.001)
    scheduler = CosineAnnealingLR(optimizer, 4 * epochs)
    engine = Engine(model, optimizer, scheduler=scheduler, clip_norm=1.0, precision="fp16")

    losses, skipped = [], 0
    for window in engine.windows(loader, size=4, epochs=epochs):
        with window:
            for inputs, labels in window:
                scores = model(inputs) / TEMPERATURE
                window.backward(cross_entropy(scores, labels), weight=len(labels))
        losses.append(window.loss or 0.0)
        if not window.stepped:
            skipped += 1
            print(f"window skipped: {window.reason}")
    print(f"{window.step} steps, {skipped} skipped, loss {losses[0]:.2f} -> {losses[-1]:.2f}")
    return losses, skipped


if __name__ == "__main__":
    main()
