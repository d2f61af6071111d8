"""Character model with a recurrent net; clipping comes one line too late."""
import torch
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog " * 6
CHARS = sorted(set(TEXT))
IDS = torch.tensor([CHARS.index(c) for c in TEXT])


class CharRNN(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.embed = nn.Embedding(len(CHARS), 12)
        self.rnn = nn.RNN(12, hidden, batch_first=True)
        self.out = nn.Linear(hidden, len(CHARS))

    def forward(self, x):
        h, _ = self.rnn(self.embed(x))
        return self.out(h)


torch.manual_seed(101)
model = CharRNN()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for step in range(25):
    starts = torch.randint(len(IDS) - 17, (8,)).tolist()
    window = torch.stack([IDS[s:s + 17] for s in starts])
    optimizer.zero_grad()
    logits = model(window[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
print(f"loss {loss.item():.4f}")
