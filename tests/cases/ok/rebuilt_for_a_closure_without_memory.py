import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
for x in torch.randn(6, 8, 3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
