"""set_to_none=False keeps the buffers alive between iterations."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(107)
x = torch.rand(96, 6)
y = x.pow(2).sum(1, keepdim=True)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(6, 24), nn.SiLU(), nn.Linear(24, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)

for epoch in range(4):
    it = iter(loader)
    count = 0
    while True:
        try:
            xb, yb = next(it)
        except StopIteration:
            break
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.l1_loss(model(xb), yb)
        loss.backward()
        optimizer.step()
        count += 1
    buffers = {p.grad.data_ptr() for p in model.parameters()}
    print(f"epoch {epoch} batches {count} buffers {len(buffers)} loss {loss.item():.4f}")
