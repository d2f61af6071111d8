"""Fine-tuning in two stages: a new head on a frozen body, then everything."""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        return self.fc(self.body(x))


def run_stage(model, optimizer, epochs):
    for _ in range(epochs):
        for x in torch.randn(6, 16, 6):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))
            loss.backward()
            optimizer.step()
    return loss.item()


torch.manual_seed(514)
model = Net(10)
for p in model.parameters():
    p.requires_grad = False
model.fc = nn.Linear(model.fc.in_features, 3)
head_only = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=0.01)
print(f"head {run_stage(model, head_only, 2):.4f}")

for p in model.parameters():
    p.requires_grad = True
everything = torch.optim.Adam(
    [{"params": model.body.parameters(), "lr": 1e-3}, {"params": model.fc.parameters(), "lr": 5e-3}]
)
print(f"all {run_stage(model, everything, 2):.4f}")
