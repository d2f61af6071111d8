"""Early stopping in mid-epoch, always right after an update."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        loss = nn.functional.mse_loss(model(x), y).item()
    model.train()
    return loss


torch.manual_seed(118)
x = torch.randn(200, 5)
y = x[:, :1] - 2 * x[:, 1:2]
loader = DataLoader(TensorDataset(x[:160], y[:160]), batch_size=10, shuffle=True)
model, window, patience = nn.Linear(5, 1), 2, 3
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
best, bad, stop = float("inf"), 0, False

for epoch in range(10):
    for i, (xb, yb) in enumerate(loader):
        loss = nn.functional.mse_loss(model(xb), yb) / window
        loss.backward()
        if (i + 1) % window == 0:
            optimizer.step()
            optimizer.zero_grad()
            val = evaluate(model, x[160:], y[160:])
            if val < best - 1e-4:
                best, bad = val, 0
            else:
                bad += 1
            if bad >= patience:
                stop = True
                break
    if stop:
        print(f"stopped in epoch {epoch} after batch {i}")
        break
print(f"best {best:.5f}")
