"""Next-value prediction on a long sine, truncated back-propagation in chunks."""
import torch
import torch.nn as nn


class Predictor(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.rnn = nn.GRU(1, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x, state=None):
        out, state = self.rnn(x, state)
        return self.head(out), state


def train_sequence(model, optimizer, series, chunk):
    state = None
    pieces = list(series[:, :-1].split(chunk, dim=1))
    targets = list(series[:, 1:].split(chunk, dim=1))
    for x, y in zip(pieces, targets):
        optimizer.zero_grad()
        if state is not None:
            state = state.detach()
        prediction, state = model(x, state)
        loss = nn.functional.mse_loss(prediction, y) / len(pieces)
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item() * len(pieces)


if __name__ == "__main__":
    torch.manual_seed(25)
    model = Predictor()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(10):
        phase = torch.rand(8, 1) * 6.28
        series = torch.sin(torch.linspace(0, 12.56, 61)[None] + phase).unsqueeze(2)
        loss = train_sequence(model, optimizer, series, chunk=15)
    print(f"last chunk's loss {loss:.5f}")
