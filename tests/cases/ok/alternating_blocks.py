"""Two factors learn in turns; the other one's gradients are never spent in its phase."""
import torch
from torch import nn

torch.manual_seed(609)
truth = torch.randn(12, 2) @ torch.randn(2, 10)
U, V = nn.Parameter(torch.randn(12, 2)), nn.Parameter(torch.randn(2, 10))
phases = [("U", torch.optim.Adam([U], lr=0.05)), ("V", torch.optim.Adam([V], lr=0.05))]

for epoch in range(10):
    name, optimizer = phases[epoch % 2]
    for _ in range(10):
        loss = (U @ V - truth).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} phase {name} loss {loss.item():.4f}")
