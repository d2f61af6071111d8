import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(100, 8, 4):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
