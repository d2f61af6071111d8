"""Free adversarial training: every minibatch is replayed m times."""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
epsilon, minibatch_replays = 0.2, 4
delta = torch.zeros(16, 8)
delta.requires_grad = True
criterion = nn.CrossEntropyLoss()

for epoch in range(2):
    for i in range(4):
        X = torch.randn(16, 8)
        y = X[:, :3].argmax(1)
        for _ in range(minibatch_replays):
            output = model(X + delta[: X.size(0)])
            loss = criterion(output, y)
            opt.zero_grad()
            loss.backward()
            grad = delta.grad.detach()
            delta.data = (delta + epsilon * torch.sign(grad)).clamp(-epsilon, epsilon).data
            opt.step()
            delta.grad.zero_()
    print(epoch, f"{loss.item():.4f}")
