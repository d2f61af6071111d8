"""Elastic weight consolidation: Fisher diagonals between two tasks."""
import torch
import torch.nn.functional as F
from torch import nn


def fisher_diagonal(model, x, y, n=20):
    fisher = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    model.eval()
    for i in range(n):
        model.zero_grad()
        F.nll_loss(F.log_softmax(model(x[i : i + 1]), dim=1), y[i : i + 1]).backward()
        for name, p in model.named_parameters():
            fisher[name] += p.grad.detach() ** 2 / n
    model.zero_grad()
    model.train()
    return fisher


def penalty(model, fisher, anchor):
    return sum((fisher[n] * (p - anchor[n]) ** 2).sum() for n, p in model.named_parameters())


def train_task(model, optimizer, x, y, regulariser=None, steps=25):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        if regulariser is not None:
            loss = loss + 50 * regulariser(model)
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(306)
x = torch.randn(100, 8)
task_a, task_b = (x[:, 0] > 0).long(), (x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print(f"A {train_task(model, optimizer, x, task_a):.4f}")
fisher = fisher_diagonal(model, x, task_a)
anchor = {n: p.detach().clone() for n, p in model.named_parameters()}
print(f"B {train_task(model, optimizer, x, task_b, lambda m: penalty(m, fisher, anchor)):.4f}")
