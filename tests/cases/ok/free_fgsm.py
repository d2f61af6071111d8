"""FGSM examples mixed half and half with clean ones."""
import torch
from torch import nn

torch.manual_seed(313)
criterion = nn.CrossEntropyLoss()
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)


def fgsm(x, y, epsilon):
    x = x.clone().requires_grad_(True)
    criterion(model(x), y).backward()
    return (x + epsilon * x.grad.sign()).detach()


for step in range(20):
    x = torch.randn(32, 5)
    y = x[:, :3].argmax(1)
    adversarial = fgsm(x, y, 0.1)
    optimizer.zero_grad()
    loss = 0.5 * (criterion(model(x), y) + criterion(model(adversarial), y))
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        print(f"step {step + 1} loss {loss.item():.4f}")
