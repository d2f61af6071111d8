"""A body optimizer for every batch, a head optimizer only for its own."""
import torch
from torch import nn

torch.manual_seed(512)
body = nn.Linear(6, 12)
heads = [nn.Linear(12, 1) for _ in range(2)]
body_opt = torch.optim.SGD(body.parameters(), lr=0.05)
head_opts = [torch.optim.SGD(h.parameters(), lr=0.05) for h in heads]
for step in range(30):
    k = 0 if step % 3 else 1
    x = torch.randn(16, 6)
    loss = (heads[k](torch.tanh(body(x))) - x[:, k : k + 1]).pow(2).mean()
    body_opt.zero_grad()
    head_opts[k].zero_grad()
    loss.backward()
    body_opt.step()
    head_opts[k].step()
print(f"loss {loss.item():.4f}")
