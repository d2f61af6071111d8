"""Textual inversion in miniature: one new embedding row, everything else fixed."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(316)
vocab, dim = 12, 8
embedding = nn.Embedding(vocab + 1, dim)
decoder = nn.Sequential(nn.Linear(dim, 16), nn.ReLU(), nn.Linear(16, 6))
decoder.requires_grad_(False)
new_token = vocab
target = torch.randn(6)
before = embedding.weight.detach().clone()
optimizer = torch.optim.AdamW(embedding.parameters(), lr=0.05, weight_decay=0.0)

for step in range(40):
    prompt = torch.cat([torch.randint(0, vocab, (4, 3)), torch.full((4, 1), new_token)], dim=1)
    optimizer.zero_grad()
    loss = F.mse_loss(decoder(embedding(prompt).mean(1)), target.expand(4, -1))
    loss.backward()
    mask = torch.arange(vocab + 1) != new_token
    embedding.weight.grad[mask] = 0.0
    optimizer.step()
assert torch.equal(before[:vocab], embedding.weight[:vocab])
print(f"loss {loss.item():.4f}")
