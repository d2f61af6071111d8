"""One optimizer, two phases per epoch: the keys rest in the first and join in the second."""
import torch
import torch.nn.functional as F
from torch import nn


class Clusterer(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(6, 4)
        self.keys = nn.Parameter(torch.randn(3, 4))
        self.classify = nn.Linear(3, 2)

    def forward(self, x):
        soft = F.softmax(-torch.cdist(torch.tanh(self.encode(x)), self.keys), dim=1)
        return self.classify(soft), soft


torch.manual_seed(610)
x = torch.randn(80, 6)
y = (x[:, 0] > 0).long()
model = Clusterer()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(4):
    model.keys.requires_grad = False
    for idx in torch.randperm(80).split(20):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[idx])[0], y[idx])
        loss.backward()
        optimizer.step()

    model.keys.requires_grad = True
    optimizer.zero_grad()
    kl = torch.zeros(())
    for idx in torch.arange(80).split(40):
        soft = model(x[idx])[1]
        target = (soft**2 / soft.sum(0)).detach()
        kl = kl + F.kl_div(soft.log(), target / target.sum(1, keepdim=True), reduction="batchmean")
    kl.backward()
    optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f} kl {kl.item():.4f}")
