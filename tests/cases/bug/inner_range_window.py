"""Patch-wise super-resolution of smooth curves; five draws for each update."""
import torch
import torch.nn as nn

SETTINGS = {"draws": 5, "updates": 10, "lr": 2e-2}


def curves(n):
    phase, speed = torch.rand(n, 1) * 6.28, 1 + torch.rand(n, 1)
    fine = torch.sin(torch.linspace(0, 6.28, 32) * speed + phase)
    return fine[:, ::4], fine


torch.manual_seed(62)
net = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 32))
sgd = torch.optim.SGD(net.parameters(), lr=SETTINGS["lr"])
for update in range(SETTINGS["updates"]):
    sgd.zero_grad()
    for draw in range(SETTINGS["draws"]):
        coarse, fine = curves(6)
        loss = nn.functional.l1_loss(net(coarse), fine)
        loss.backward()
    sgd.step()
print(f"last loss {loss.item():.4f}")
