"""Sequence model fitted by LBFGS with a strong-Wolfe line search."""
import torch
from torch import nn


class Wave(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(1, 8, batch_first=True)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


torch.manual_seed(401)
t = torch.arange(0, 12, 0.4)
series = torch.stack([torch.sin(t + s) for s in range(4)]).unsqueeze(-1)
x, y = series[:, :-1], series[:, 1:]
model = Wave()
criterion = nn.MSELoss()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8, max_iter=6, line_search_fn="strong_wolfe")

for i in range(4):

    def closure():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    with torch.no_grad():
        print(f"step {i} loss {loss.item():.5f} after {criterion(model(x), y).item():.5f}")
