"""Extractor and classifier with separate learning rates."""
from argparse import Namespace

import torch
from torch import nn

args = Namespace(extractor_lr=1e-3, classifier_lr=1e-2, epochs=3, batch_size=16)


class Extractor(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 6, 3, padding=1)
        self.pool = nn.AdaptiveMaxPool1d(4)

    def forward(self, x):
        return self.pool(torch.relu(self.conv(x))).flatten(1).detach()


def train(args):
    torch.manual_seed(55)
    y = torch.randint(2, (80,))
    x = torch.randn(80, 2, 12)
    x[y == 1, 0, 3:6] += 2
    extractor, classifier = Extractor(), nn.Linear(24, 2)
    opt_e = torch.optim.Adam(extractor.parameters(), lr=args.extractor_lr)
    opt_c = torch.optim.Adam(classifier.parameters(), lr=args.classifier_lr)
    for epoch in range(args.epochs):
        for bx, by in zip(x.split(args.batch_size), y.split(args.batch_size)):
            loss = nn.functional.cross_entropy(classifier(extractor(bx)), by)
            for opt in (opt_e, opt_c):
                opt.zero_grad()
            loss.backward()
            for opt in (opt_e, opt_c):
                opt.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


train(args)
