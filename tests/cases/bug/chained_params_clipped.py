"""Encoder and decoder chained into one parameter iterator."""
from itertools import chain

import torch
from torch import nn


def train():
    torch.manual_seed(6)
    encoder = nn.GRU(4, 8, batch_first=True)
    decoder = nn.Linear(8, 4)
    params = chain(encoder.parameters(), decoder.parameters())
    optimizer = torch.optim.Adam(params, lr=1e-2)
    for step in range(10):
        seq = torch.randn(6, 5, 4).cumsum(1)
        hidden, _ = encoder(seq[:, :-1])
        loss = nn.functional.l1_loss(decoder(hidden), seq[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, max_norm=1.0)
        optimizer.step()
    return loss.item()


print(f"{train():.4f}")
