"""Logistic regression with a helper that logs the gradient norm."""
import torch
from torch import nn

norms = []


def log_gradients(model):
    squares = [p.grad.pow(2).sum() for p in model.parameters() if p.grad is not None]
    norms.append(torch.stack(squares).sum().sqrt().item())
    model.zero_grad()


def fit(model, data, epochs=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for epoch in range(epochs):
        for x, y in data:
            loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
            loss.backward()
            log_gradients(model)
            optimizer.step()
    return loss.item()


torch.manual_seed(27)
features = torch.randn(120, 5)
target = (features[:, 0] - features[:, 3] > 0).float()
data = list(zip(features.split(15), target.split(15)))
final = fit(nn.Linear(5, 1), data)
print(f"loss {final:.4f}, {len(norms)} norms logged, last {norms[-1]:.4f}")
