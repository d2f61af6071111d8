"""Trainer class in the style of the multi-GPU tutorial, on one CPU."""
import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, train_data, optimizer, device):
        self.device = device
        self.model = model.to(device)
        self.train_data = train_data
        self.optimizer = optimizer

    def _run_batch(self, source, targets):
        output = self.model(source)
        loss = F.cross_entropy(output, targets)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def _run_epoch(self, epoch):
        total = 0.0
        for source, targets in self.train_data:
            source, targets = source.to(self.device), targets.to(self.device)
            total += self._run_batch(source, targets)
        print(f"[{self.device}] Epoch {epoch} | loss {total / len(self.train_data):.4f}")

    def train(self, max_epochs):
        for epoch in range(max_epochs):
            self._run_epoch(epoch)


def load_train_objs():
    x = torch.randn(96, 20)
    y = (x[:, 0] > 0).long()
    model = torch.nn.Linear(20, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    return TensorDataset(x, y), model, optimizer


def main(total_epochs, batch_size):
    torch.manual_seed(0)
    dataset, model, optimizer = load_train_objs()
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True)
    Trainer(model, loader, optimizer, "cpu").train(total_epochs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="simple training job")
    parser.add_argument("--total_epochs", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=16)
    args = parser.parse_args()
    main(args.total_epochs, args.batch_size)
