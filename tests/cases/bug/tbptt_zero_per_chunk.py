"""Truncated backprop through time with the zeroing on the wrong level."""
import torch
from torch import nn


class CharRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.RNN(3, 12, batch_first=True), nn.Linear(12, 3)

    def forward(self, x, h=None):
        y, h = self.rnn(x, h)
        return self.out(y), h


def train_sequence(model, optimizer, sequence, k=5):
    h = None
    chunks = list(zip(sequence[:, :-1].split(k, 1), sequence[:, 1:].split(k, 1)))
    for x, y in chunks:
        optimizer.zero_grad()
        pred, h = model(x, h)
        loss = nn.functional.mse_loss(pred, y)
        (loss / len(chunks)).backward()
        h = h.detach()
    optimizer.step()
    return loss.item()


torch.manual_seed(0)
model = CharRNN()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2)
for step in range(6):
    seq = torch.randn(4, 21, 3).cumsum(1) * 0.1
    loss = train_sequence(model, optimizer, seq)
print(f"{loss:.4f}")
