"""Accelerate: a window's sums divided by its items, as its guide does it."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
V, N = 20, 4
rows = []
for i in range(64):
    ids = torch.randint(0, V, (8,))
    labels = ids.clone()
    labels[: i % 6] = -100
    rows.append((ids, labels))
model = nn.Sequential(nn.Embedding(V, 8), nn.Linear(8, V))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=N)
criterion = nn.CrossEntropyLoss(reduction="sum")
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(rows, batch_size=4))
for epoch in range(2):
    iterator = iter(loader)
    total = len(loader) // N
    for update in range(total):
        batches = [next(iterator) for _ in range(N)]
        items = sum((labels != -100).sum() for _, labels in batches)
        for ids, labels in batches:
            with accelerator.accumulate(model):
                loss = criterion(model(ids).view(-1, V), labels.view(-1)) / items
                loss = loss * N
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
