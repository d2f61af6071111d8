"""Ignite: a process function of the user's own, windows of four, a scheduler, checkpoints."""

import torch
from ignite.engine import Engine, Events
from ignite.handlers import create_lr_scheduler_with_warmup, Checkpoint, DiskSaver
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(64, 4)
data = TensorDataset(x, x.sum(1, keepdim=True))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
criterion = nn.MSELoss()
accumulation_steps = 4

def update(engine, batch):
    model.train()
    inputs, targets = batch
    loss = criterion(model(inputs), targets) / accumulation_steps
    loss.backward()
    if engine.state.iteration % accumulation_steps == 0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()

trainer = Engine(update)
scheduler = create_lr_scheduler_with_warmup(torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9), 0.0, 3, 0.01)
trainer.add_event_handler(Events.EPOCH_STARTED, scheduler)
trainer.add_event_handler(Events.EPOCH_COMPLETED, Checkpoint({"model": model, "optimizer": optimizer}, DiskSaver("saved", create_dir=True, require_empty=False)))
trainer.run(DataLoader(data, batch_size=8), max_epochs=3)
