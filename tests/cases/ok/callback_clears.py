"""Callbacks around a minimal loop; one of them clears the gradients after the step."""
import torch
from torch import nn


class Callback:
    def on_loss(self, state): ...
    def on_update(self, state): ...


class ClearGradients(Callback):
    def on_update(self, state):
        state["optimizer"].zero_grad()


class NormLog(Callback):
    def __init__(self):
        self.norms = []

    def on_loss(self, state):
        grads = [p.grad for p in state["model"].parameters() if p.grad is not None]
        self.norms.append(torch.stack([g.norm() for g in grads]).norm().item())


def fit(model, optimizer, batches, callbacks):
    state = {"model": model, "optimizer": optimizer}
    for x, y in batches:
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        for callback in callbacks:
            callback.on_loss(state)
        optimizer.step()
        for callback in callbacks:
            callback.on_update(state)
    return loss.item()


torch.manual_seed(102)
weight = torch.randn(5, 1)
batches = [(x, x @ weight) for x in torch.randn(30, 16, 5)]
model = nn.Linear(5, 1)
log = NormLog()
last = fit(model, torch.optim.Adam(model.parameters(), lr=0.05), batches, [log, ClearGradients()])
print(f"last loss {last:.4f} first norm {log.norms[0]:.3f} last norm {log.norms[-1]:.3f}")
