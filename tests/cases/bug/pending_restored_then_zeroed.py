"""Resume from the middle of a window: gradients are saved, restored, and wiped."""
import io

import torch
from torch import nn


def build():
    model = nn.Linear(4, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.05)


def batch(i):
    g = torch.Generator().manual_seed(i)
    x = torch.randn(8, 4, generator=g)
    return x, x.sum(1, keepdim=True)


def save(model, optimizer, i):
    buf = io.BytesIO()
    grads = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    torch.save({"model": model.state_dict(), "optim": optimizer.state_dict(), "grads": grads, "i": i}, buf)
    buf.seek(0)
    return buf


def load(buf, model, optimizer):
    ckpt = torch.load(buf)
    model.load_state_dict(ckpt["model"])
    optimizer.load_state_dict(ckpt["optim"])
    for n, p in model.named_parameters():
        if n in ckpt["grads"]:
            p.grad = ckpt["grads"][n].clone()
    return ckpt["i"]


def train(model, optimizer, start, stop, accum=4):
    optimizer.zero_grad()
    for i in range(start, stop):
        x, y = batch(i)
        (nn.functional.mse_loss(model(x), y) / accum).backward()
        if (i + 1) % accum == 0:
            optimizer.step()
            optimizer.zero_grad()


torch.manual_seed(0)
model, optimizer = build()
accum = 4
for i in range(2):
    x, y = batch(i)
    (nn.functional.mse_loss(model(x), y) / accum).backward()
buf = save(model, optimizer, 2)

model, optimizer = build()
start = load(buf, model, optimizer)
train(model, optimizer, start, 4)
print(f"{model.weight.sum().item():.4f}")
