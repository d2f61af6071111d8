"""Sequence reversal with separate encoder and decoder optimizers."""
import random

import torch
import torch.nn as nn
from torch import optim

SOS, EOS, PAD = 0, 1, 2


class EncoderRNN(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(vocab, hidden), nn.GRU(hidden, hidden, batch_first=True)

    def forward(self, x):
        return self.gru(self.embedding(x))


class DecoderRNN(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(vocab, hidden), nn.GRU(hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x, h):
        o, h = self.gru(self.embedding(x), h)
        return self.out(o), h


def train(inp, tgt, encoder, decoder, encoder_optimizer, decoder_optimizer, criterion):
    encoder_optimizer.zero_grad()
    loss = 0
    _, hidden = encoder(inp)
    token = torch.full((inp.size(0), 1), SOS)
    for t in range(tgt.size(1)):
        logits, hidden = decoder(token, hidden)
        loss = loss + criterion(logits.squeeze(1), tgt[:, t])
        token = tgt[:, t : t + 1] if random.random() < 0.5 else logits.argmax(-1)
    loss.backward()
    encoder_optimizer.step()
    decoder_optimizer.step()
    return loss.item() / tgt.size(1)


def train_iters(n_iters):
    encoder, decoder = EncoderRNN(12, 16), DecoderRNN(12, 16)
    eo = optim.SGD(encoder.parameters(), lr=0.05)
    do = optim.SGD(decoder.parameters(), lr=0.05)
    for it in range(1, n_iters + 1):
        src = torch.randint(3, 12, (8, 5))
        loss = train(src, src.flip(1), encoder, decoder, eo, do, nn.CrossEntropyLoss(ignore_index=PAD))
        if it % 5 == 0:
            print(it, f"{loss:.4f}")


random.seed(0)
torch.manual_seed(0)
train_iters(10)
