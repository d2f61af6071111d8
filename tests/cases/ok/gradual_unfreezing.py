"""Progressive unfreezing with add_param_group and lower rates for lower layers."""
import torch
from torch import nn

torch.manual_seed(513)
layers = nn.ModuleList([nn.Linear(5, 10), nn.Linear(10, 10), nn.Linear(10, 2)])


def forward(x):
    for layer in layers[:-1]:
        x = torch.relu(layer(x))
    return layers[-1](x)


for layer in layers[:-1]:
    layer.requires_grad_(False)
optimizer = torch.optim.AdamW(layers[-1].parameters(), lr=0.02)
frozen = [(layers[0], 0.005), (layers[1], 0.01)]

for epoch in range(3):
    for step in range(8):
        x = torch.randn(16, 5)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(forward(x), (x[:, 0] > 0).long())
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} groups {len(optimizer.param_groups)} loss {loss.item():.4f}")
    if frozen:
        layer, lr = frozen.pop()
        layer.requires_grad_(True)
        optimizer.add_param_group({"params": layer.parameters(), "lr": lr})
