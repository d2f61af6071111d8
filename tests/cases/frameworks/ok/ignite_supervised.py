"""Ignite: its own supervised trainer, in windows of four, with an evaluator."""

import torch
from ignite.engine import Events, create_supervised_trainer, create_supervised_evaluator
from ignite.metrics import MeanSquaredError
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(64, 4)
data = TensorDataset(x, x.sum(1, keepdim=True))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
trainer = create_supervised_trainer(model, optimizer, nn.MSELoss(), gradient_accumulation_steps=4)
evaluator = create_supervised_evaluator(model, {"mse": MeanSquaredError()})

@trainer.on(Events.EPOCH_COMPLETED)
def evaluate(engine):
    evaluator.run(DataLoader(data, batch_size=16))

trainer.run(DataLoader(data, batch_size=8), max_epochs=3)
