"""Train until a budget of samples is used up."""
import torch
from torch import nn

WINDOW = 4


def sampler(batch):
    while True:
        x = torch.randn(batch, 6)
        yield x, x.relu().sum(1, keepdim=True)


def main(budget=180, batch=10):
    torch.manual_seed(82)
    model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    used = micro = 0
    optimizer.zero_grad()
    for x, y in sampler(batch):
        loss = nn.functional.mse_loss(model(x), y) / WINDOW
        loss.backward()
        micro += 1
        used += len(x)
        if micro % WINDOW == 0:
            optimizer.step()
            optimizer.zero_grad()
        if used >= budget:
            break
    print(f"{used} samples, {micro} micro-batches, loss {loss.item() * WINDOW:.4f}")


main()
