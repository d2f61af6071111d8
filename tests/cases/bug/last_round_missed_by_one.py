import torch

torch.manual_seed(0)
size = 4
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.randn(8, 4) for _ in range(14)]
for epoch in range(2):
    for i, x in enumerate(batches):
        last = i == len(batches)
        filled = len(batches) % size if i >= len(batches) - len(batches) % size else size
        loss = model(x).square().mean() / filled
        loss.backward()
        if (i + 1) % size == 0 or last:
            optimizer.step()
            optimizer.zero_grad()
