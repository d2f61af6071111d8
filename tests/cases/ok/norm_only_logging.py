"""clip_grad_norm_ with an infinite bound as a thermometer."""
import torch
from torch import nn

torch.manual_seed(504)
model = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
norms = {"micro": [], "window": []}

for update in range(8):
    optimizer.zero_grad()
    for micro in range(3):
        x = torch.randn(10, 3)
        (nn.functional.mse_loss(model(x), x[:, :1]) / 3).backward()
        norms["micro"].append(nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item())
    optimizer.step()
    norms["window"].append(nn.utils.get_total_norm([p.grad for p in model.parameters()]).item())
assert norms["micro"][2::3] == norms["window"]
print([round(n, 4) for n in norms["window"]])
