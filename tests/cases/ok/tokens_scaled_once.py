"""Mean loss times its token count; the gradient is divided once per window."""
import torch
import torch.nn.functional as F
from torch import nn

IGNORE = -100


def make_batch(n=4, length=10, vocab=12):
    tokens = torch.randint(0, vocab, (n, length))
    labels = (tokens + 1) % vocab
    for row in range(n):
        labels[row, torch.randint(2, length, (1,)).item():] = IGNORE
    return tokens, labels


@torch.no_grad()
def scale_grads(module, factor):
    for p in module.parameters():
        if p.grad is not None:
            p.grad *= factor


class Recipe:
    def __init__(self, window=3):
        self.model = nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 12))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.03)
        self.window = window

    def loss(self, tokens, labels):
        return F.cross_entropy(self.model(tokens).transpose(1, 2), labels, ignore_index=IGNORE)

    def train(self, batches):
        num_tokens, running = 0, 0.0
        for idx, (tokens, labels) in enumerate(batches):
            current = (labels != IGNORE).sum()
            num_tokens += current
            loss = self.loss(tokens, labels) * current
            running += loss.detach()
            loss.backward()
            if (idx + 1) % self.window == 0:
                scale_grads(self.model, 1 / num_tokens)
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
                print(f"batch {idx + 1} loss per token {(running / num_tokens).item():.4f}")
                num_tokens, running = 0, 0.0


torch.manual_seed(113)
Recipe().train([make_batch() for _ in range(12)])
