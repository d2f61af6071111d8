"""Recurrent language model with a hand-made SGD update and detached hidden state."""
import torch
from torch import nn

torch.manual_seed(409)
vocab, bptt, batch = 15, 6, 4
corpus = (torch.arange(241) * 3 % vocab)[: 240 // batch * batch].view(batch, -1).t().contiguous()
embed, rnn, out = nn.Embedding(vocab, 12), nn.LSTM(12, 12), nn.Linear(12, vocab)
model = nn.ModuleList([embed, rnn, out])
criterion = nn.CrossEntropyLoss()
lr, clip = 1.0, 0.25


def repackage(h):
    return tuple(v.detach() for v in h)


for epoch in range(2):
    hidden = (torch.zeros(1, batch, 12), torch.zeros(1, batch, 12))
    total = 0.0
    for i in range(0, corpus.size(0) - 1, bptt):
        length = min(bptt, corpus.size(0) - 1 - i)
        data, targets = corpus[i : i + length], corpus[i + 1 : i + 1 + length].reshape(-1)
        model.zero_grad()
        hidden = repackage(hidden)
        output, hidden = rnn(embed(data), hidden)
        loss = criterion(out(output).view(-1, vocab), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        total += loss.item()
    print(f"epoch {epoch} loss {total / 10:.4f}")
