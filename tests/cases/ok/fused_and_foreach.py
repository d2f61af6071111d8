"""A fused Adam for the body and a foreach SGD for the head."""
import torch
from torch import nn

torch.manual_seed(407)
body = nn.Sequential(nn.Linear(4, 16), nn.ReLU())
head = nn.Linear(16, 3)
optimizers = [
    torch.optim.Adam(body.parameters(), lr=1e-3, fused=True),
    torch.optim.SGD(head.parameters(), lr=0.05, momentum=0.9, foreach=True),
]
for step in range(1, 31):
    x = torch.randn(20, 4)
    loss = nn.functional.cross_entropy(head(body(x)), x[:, :3].argmax(1))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f}")
