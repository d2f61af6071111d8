"""ReduceLROnPlateau on the validation loss beside an exponential decay, per epoch."""
import torch
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(413)
x = torch.randn(120, 4)
dataset = TensorDataset(x, x.pow(2).mean(1, keepdim=True))
train_set, val_set = random_split(dataset, [100, 20])
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
decay = lr_scheduler.ExponentialLR(optimizer, gamma=0.98)
plateau = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)

for epoch in range(6):
    model.train()
    for xb, yb in DataLoader(train_set, batch_size=25, shuffle=True):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(xb), yb)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.inference_mode():
        val = sum(nn.functional.mse_loss(model(a), b).item() for a, b in DataLoader(val_set, batch_size=10)) / 2
    decay.step()
    plateau.step(val)
    print(f"epoch {epoch} val {val:.4f} lr {optimizer.param_groups[0]['lr']:.5f}")
