"""Three per-step schedulers, each ticked right after its optimizer's step."""
import math

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, LinearLR, OneCycleLR

EPOCHS, BATCHES = 3, 8
TOTAL = EPOCHS * BATCHES


def warmup_cosine(step, warmup=5):
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (TOTAL - warmup)))


def make(kind, optimizer):
    if kind == "lambda":
        return LambdaLR(optimizer, warmup_cosine)
    if kind == "onecycle":
        return OneCycleLR(optimizer, max_lr=0.1, epochs=EPOCHS, steps_per_epoch=BATCHES)
    return LinearLR(optimizer, start_factor=0.1, total_iters=10)


def train(kind):
    torch.manual_seed(412)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = make(kind, optimizer)
    for epoch in range(EPOCHS):
        for x in torch.randn(BATCHES, 16, 4):
            optimizer.zero_grad()
            loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
            loss.backward()
            optimizer.step()
            scheduler.step()
    return loss.item(), scheduler.get_last_lr()[0]


for kind in ("lambda", "onecycle", "linear"):
    print(kind, "loss {:.5f} lr {:.6f}".format(*train(kind)))
