import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.randn(8, 4) for _ in range(8)]
for epoch in range(3):
    for i, x in enumerate(batches):
        optimizer.zero_grad()
        loss = model(x).square().mean() / 3
        loss.backward()
        if (i + 1) % 3 == 0:
            optimizer.step()
    optimizer.zero_grad()
