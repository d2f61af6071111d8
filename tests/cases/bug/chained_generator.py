"""Encoder and decoder trained together, their parameters chained."""
import itertools

import torch
from torch import nn


class Pipeline:
    def __init__(self):
        self.encoder = nn.Sequential(nn.Linear(9, 6), nn.ReLU())
        self.decoder = nn.Linear(6, 9)
        self.params = itertools.chain(self.encoder.parameters(), self.decoder.parameters())
        self.optimizer = torch.optim.SGD(self.params, lr=0.1, momentum=0.9)

    def train_batch(self, x):
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.decoder(self.encoder(x)), x)
        loss.backward()
        nn.utils.clip_grad_norm_(self.params, max_norm=1.0)
        self.optimizer.step()
        return loss.item()


def main():
    torch.manual_seed(107)
    pipeline = Pipeline()
    basis = torch.randn(3, 9)
    for _ in range(20):
        value = pipeline.train_batch(torch.randn(12, 3) @ basis)
    print(f"reconstruction {value:.4f}")


if __name__ == "__main__":
    main()
