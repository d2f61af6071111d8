"""Trainer class with one method per phase of the update."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, lr=0.05):
        self.model = model
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.history = []

    def train_batch(self, x, y):
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def validate(self, loader):
        self.model.eval()
        hits = total = 0
        with torch.no_grad():
            for x, y in loader:
                hits += (self.model(x).argmax(1) == y).sum().item()
                total += len(y)
        self.model.train()
        return hits / total

    def fit(self, train, val, epochs):
        for epoch in range(epochs):
            running = 0.0
            for x, y in train:
                running += self.train_batch(x, y)
            self.history.append((running / len(train), self.validate(val)))
        return self.history


def main():
    torch.manual_seed(101)
    x = torch.randn(180, 13)
    y = x[:, :3].argmax(1)
    train = DataLoader(TensorDataset(x[:140], y[:140]), batch_size=20, shuffle=True)
    val = DataLoader(TensorDataset(x[140:], y[140:]), batch_size=20)
    trainer = Trainer(nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 3)))
    for loss, accuracy in trainer.fit(train, val, epochs=3):
        print(f"loss {loss:.4f} accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
