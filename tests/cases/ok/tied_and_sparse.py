"""A tied decoder, and a sparse embedding with SparseAdam beside Adam."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(515)
vocab = 20


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(vocab, 12)
        self.mix = nn.Linear(12, 12)
        self.decode = nn.Linear(12, vocab, bias=False)
        self.decode.weight = self.embed.weight

    def forward(self, ids):
        return self.decode(torch.tanh(self.mix(self.embed(ids))))


model = Tied()
opt = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(20):
    ids = torch.randint(0, vocab, (16,))
    opt.zero_grad()
    tied_loss = F.cross_entropy(model(ids), (ids + 1) % vocab)
    tied_loss.backward()
    opt.step()

users, score = nn.Embedding(50, 8, sparse=True), nn.Linear(8, 1)
sparse_opt = torch.optim.SparseAdam(list(users.parameters()), lr=0.02)
dense_opt = torch.optim.Adam(score.parameters(), lr=0.02)
for _ in range(20):
    ids = torch.randint(0, 50, (16,))
    for o in (sparse_opt, dense_opt):
        o.zero_grad()
    sparse_loss = F.mse_loss(score(users(ids)).squeeze(1), ids / 50)
    sparse_loss.backward()
    for o in (sparse_opt, dense_opt):
        o.step()
print(f"tied {tied_loss.item():.4f} sparse {sparse_loss.item():.4f}")
