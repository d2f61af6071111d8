"""An RNN over a long signal, with truncated backpropagation: one window per chunk of time.

The state goes on from chunk to chunk; detached after each step, because the graph of the chunk
before is gone.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.optim import Adam

from gradkeeper import Engine

CHUNK = 20


class Forecast(nn.Module):
    """The next value of each signal."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(1, 16, batch_first=True)
        self.out = nn.Linear(16, 1)

    def forward(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        hidden, state = self.rnn(x, state)
        return self.out(hidden), state


def main(epochs: int = 10) -> list[float]:
    torch.manual_seed(0)
    time = torch.arange(401.0)
    signals = torch.stack([torch.sin(time * rate) for rate in (0.1, 0.17, 0.23)]).unsqueeze(2)
    inputs, targets = signals[:, :-1], signals[:, 1:]
    chunks = list(zip(inputs.split(CHUNK, 1), targets.split(CHUNK, 1), strict=True))
    model = Forecast()
    engine = Engine(model, Adam(model.parameters(), lr=0.01), clip_norm=1.0)

    losses = []
    for _ in range(epochs):
        state = None
        for x, y in chunks:
            with engine.window() as window:
                forecast, state = model(x, state)
                window.backward(mse_loss(forecast, y), weight=y.numel())
            state = state.detach()
            losses.append(window.loss or 0.0)
    print(f"{window.step} steps, loss {losses[0]:.3f} -> {losses[-1]:.5f}")
    return losses


if __name__ == "__main__":
    main()
