"""Skip-gram with sparse embeddings and a dense output layer, one optimizer for each."""
import torch
from torch import nn

torch.manual_seed(56)
VOCAB, DIM = 30, 8
embeddings = nn.Embedding(VOCAB, DIM, sparse=True)
output = nn.Linear(DIM, VOCAB)
sparse_opt = torch.optim.SparseAdam(embeddings.parameters(), lr=1e-2)
dense_opt = torch.optim.Adam(output.parameters(), lr=1e-2)


def pairs(n):
    centre = torch.randint(VOCAB, (n,))
    shift = torch.randint(1, 3, (n,))
    return centre, (centre + shift) % VOCAB


def train_step():
    centre, context = pairs(48)
    sparse_opt.zero_grad()
    dense_opt.zero_grad()
    loss = nn.functional.cross_entropy(output(embeddings(centre)), context)
    loss.backward()
    dense_opt.step()
    return loss.item()


for it in range(30):
    value = train_step()
print(f"skip-gram loss {value:.4f}")
