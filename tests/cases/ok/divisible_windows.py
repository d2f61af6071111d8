"""drop_last leaves 8 batches: two whole windows of 4 per epoch."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(109)
steps_per_update = 4
data = TensorDataset(torch.randn(70, 3), torch.randn(70, 1))
loader = DataLoader(data, batch_size=8, shuffle=True, drop_last=True)
assert len(loader) % steps_per_update == 0

model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)

for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        if i % steps_per_update == 0:
            optimizer.zero_grad()
        loss = (model(x) - y).pow(2).mean() / steps_per_update
        loss.backward()
        if (i + 1) % steps_per_update == 0:
            optimizer.step()
            scheduler.step()
    print(f"epoch {epoch} lr {scheduler.get_last_lr()[0]:.4f}")
