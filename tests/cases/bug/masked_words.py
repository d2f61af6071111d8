"""Masked language model on counting sequences, with random masks of random density."""
import torch
import torch.nn.functional as F
from torch import nn

VOCAB, MASK, IGNORE = 16, 15, -100


class MaskedLM(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Parameter(torch.zeros(10, dim))
        self.mix = nn.TransformerEncoderLayer(dim, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(dim, VOCAB)

    def loss(self, tokens, labels):
        logits = self.head(self.mix(self.tok(tokens) + self.pos))
        return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORE)


def masked_batch(density):
    start = torch.randint(12, (8, 1))
    tokens = (start + torch.arange(10)) % 12
    chosen = torch.rand(8, 10) < density
    chosen[:, 0] = True
    labels = torch.where(chosen, tokens, torch.full_like(tokens, IGNORE))
    return tokens.masked_fill(chosen, MASK), labels


def train(model, optimizer, updates, accum):
    for update in range(updates):
        optimizer.zero_grad()
        for k in range(accum):
            tokens, labels = masked_batch(density=0.1 + 0.2 * k)
            loss = model.loss(tokens, labels) / accum
            loss.backward()
        optimizer.step()
    return loss.item() * accum


torch.manual_seed(85)
model = MaskedLM()
print(f"masked loss {train(model, torch.optim.AdamW(model.parameters(), lr=5e-3), updates=8, accum=3):.4f}")
