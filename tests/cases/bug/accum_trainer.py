"""A reusable trainer with an accumulation option."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AccumTrainer:
    def __init__(self, model, optimizer, accumulation_steps):
        self.model = model
        self.optimizer = optimizer
        self.accumulation_steps = accumulation_steps

    def train_epoch(self, loader):
        self.model.train()
        self.optimizer.zero_grad()
        for step, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            if (step + 1) % self.accumulation_steps == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
        return loss.item()


def main():
    torch.manual_seed(61)
    x = torch.randn(96, 9)
    y = x[:, :3].argmax(1)
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(9, 20), nn.ReLU(), nn.Linear(20, 3))
    trainer = AccumTrainer(model, torch.optim.SGD(model.parameters(), lr=0.1), accumulation_steps=4)
    for epoch in range(3):
        print(f"epoch {epoch} loss {trainer.train_epoch(loader):.4f}")


main()
