"""Attention-free seq2seq with encoder and decoder optimizers."""
import random

import torch
import torch.nn as nn

PAD = 0


def pad(seqs):
    return nn.utils.rnn.pad_sequence(seqs, batch_first=True, padding_value=PAD)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.gru = nn.Embedding(15, 12, padding_idx=PAD), nn.GRU(12, 12, batch_first=True)

    def forward(self, x):
        return self.gru(self.emb(x))[1]


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.gru, self.out = nn.Embedding(15, 12), nn.GRU(12, 12, batch_first=True), nn.Linear(12, 15)

    def forward(self, tok, h):
        o, h = self.gru(self.emb(tok), h)
        return self.out(o), h


def train_epoch(batches, encoder, decoder, encoder_optimizer, decoder_optimizer, criterion):
    total = 0
    for x in batches:
        encoder_optimizer.zero_grad()
        decoder_optimizer.zero_grad()
        h = encoder(x)
        tok, outs = torch.ones(len(x), 1, dtype=torch.long), []
        for t in range(x.size(1)):
            logits, h = decoder(tok, h)
            outs.append(logits)
            tok = x[:, t : t + 1] if random.random() < 0.6 else logits.argmax(-1).detach()
        loss = criterion(torch.cat(outs, 1).transpose(1, 2), x)
        loss.backward()
        encoder_optimizer.step()
        decoder_optimizer.step()
        total += loss.item()
    return total / len(batches)


random.seed(0)
torch.manual_seed(0)
batches = [pad([torch.randint(2, 15, (random.randint(2, 8),)) for _ in range(6)]) for _ in range(4)]
enc, dec = Encoder(), Decoder()
eo, do = torch.optim.Adam(enc.parameters(), 1e-2), torch.optim.Adam(dec.parameters(), 1e-2)
for epoch in range(3):
    print(epoch, f"{train_epoch(batches, enc, dec, eo, do, nn.CrossEntropyLoss(ignore_index=PAD)):.4f}")
