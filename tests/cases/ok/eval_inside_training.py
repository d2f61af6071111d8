"""Step-based training with evaluation, gradient norms per layer and logging in between."""
import torch
from torch import nn


def layer_norms(model):
    return {n: p.grad.norm().item() for n, p in model.named_parameters() if p.grad is not None}


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    score = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return score


torch.manual_seed(523)
x = torch.randn(300, 6)
y = (x[:, 0] * x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
decay = [p for p in model.parameters() if p.dim() > 1]
no_decay = [p for p in model.parameters() if p.dim() <= 1]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}], lr=0.01)

step = 0
while step < 45:
    for idx in torch.randperm(256).split(32):
        loss = nn.functional.cross_entropy(model(x[idx]), y[idx])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        step += 1
        if step % 15 == 0:
            top = max(layer_norms(model).items(), key=lambda kv: kv[1])[0]
            print(f"step {step} val {accuracy(model, x[256:], y[256:]):.3f} largest {top}")
        if step >= 45:
            break
