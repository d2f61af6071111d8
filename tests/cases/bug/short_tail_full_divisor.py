"""Sound-level regression; the last batch of an epoch always closes the window."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(72)
hparams = {"accumulate": 4, "epochs": 2, "lr": 0.05}
x = torch.randn(60, 8)
y = x.pow(2).mean(1, keepdim=True)
loader = DataLoader(TensorDataset(x, y), batch_size=6, shuffle=True)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=hparams["lr"])

for epoch in range(hparams["epochs"]):
    optimizer.zero_grad()
    for i, (bx, by) in enumerate(loader):
        loss = nn.functional.mse_loss(model(bx), by)
        (loss / hparams["accumulate"]).backward()
        last = i + 1 == len(loader)
        if (i + 1) % hparams["accumulate"] == 0 or last:
            optimizer.step()
            optimizer.zero_grad()
    print(f"epoch {epoch} loss {loss.item():.4f}")
