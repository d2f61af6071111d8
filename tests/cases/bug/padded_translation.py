"""Reverse a sequence with an encoder and a decoder; padding is ignored in the loss."""
import torch
from torch import nn

PAD, VOCAB, ACCUM = 0, 14, 2


class Reverser(nn.Module):
    def __init__(self, dim=20):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.encoder = nn.GRU(dim, dim, batch_first=True)
        self.decoder = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, source, shifted):
        _, memory = self.encoder(self.embed(source))
        states, _ = self.decoder(self.embed(shifted), memory)
        return self.out(states)


def batch(longest, size=6, width=12):
    source = torch.full((size, width), PAD)
    target = torch.full((size, width), PAD)
    for row in range(size):
        n = int(torch.randint(2, longest + 1, (1,)))
        words = torch.randint(1, VOCAB, (n,))
        source[row, :n], target[row, :n] = words, words.flip(0)
    return source, target


torch.manual_seed(84)
model = Reverser()
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for i in range(16):
    source, target = batch(longest=12 if i % 2 else 3)
    shifted = torch.cat([torch.zeros(6, 1, dtype=torch.long), target[:, :-1]], 1)
    loss = criterion(model(source, shifted).flatten(0, 1), target.flatten())
    (loss / ACCUM).backward()
    if (i + 1) % ACCUM == 0:
        optimizer.step()
        optimizer.zero_grad()
print(f"loss {loss.item():.4f}")
