"""Word-order classifier; the running loss is averaged, the gradient is not."""
import torch
from torch import nn


class OrderNet(nn.Module):
    def __init__(self, vocab=20, dim=10):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, 1)

    def forward(self, tokens):
        _, h = self.gru(self.embed(tokens))
        return self.out(h[-1]).squeeze(1)


def sentences(count):
    for _ in range(count):
        t = torch.randint(20, (8, 6))
        yield t, (t[:, 0] < t[:, -1]).float()


torch.manual_seed(64)
model = OrderNet()
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
grad_steps = 3
for epoch in range(2):
    running = 0.0
    for n, (tokens, label) in enumerate(sentences(12), start=1):
        loss = criterion(model(tokens), label)
        loss.backward()
        running += loss.item() / grad_steps
        if n % grad_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
            print(f"epoch {epoch} window {n // grad_steps} loss {running:.4f}")
            running = 0.0
