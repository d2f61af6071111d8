"""Float16 autocast on a text classifier, no gradient scaler."""
import torch
from torch import nn


class BagOfWords(nn.Module):
    def __init__(self, vocab=50, dim=16):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.fc = nn.Linear(dim, 2)

    def forward(self, tokens):
        return self.fc(self.bag(tokens))


def epoch(model, optimizer, batches):
    for _ in range(batches):
        tokens = torch.randint(50, (16, 8))
        y = (tokens < 25).sum(1).gt(4).long()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(tokens), y)
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(110)
model = BagOfWords()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for n in range(2):
    print(f"epoch {n} loss {epoch(model, optimizer, 12):.4f}")
