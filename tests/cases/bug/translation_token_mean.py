"""Seq2seq trainer with padding; accumulates means over non-pad tokens."""
import torch
from torch import nn

PAD = 0


class Tagger(nn.Module):
    def __init__(self, vocab=20):
        super().__init__()
        self.emb = nn.Embedding(vocab, 16, padding_idx=PAD)
        self.rnn = nn.GRU(16, 16, batch_first=True)
        self.out = nn.Linear(16, vocab)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


def batch(longest):
    lengths = torch.randint(1, longest + 1, (4,))
    x = torch.randint(1, 20, (4, 12))
    x[torch.arange(12)[None] >= lengths[:, None]] = PAD
    return x


class Trainer:
    def __init__(self, accumulate=4):
        self.model = Tagger()
        self.criterion = nn.CrossEntropyLoss(ignore_index=PAD)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)
        self.accumulate = accumulate

    def epoch(self, batches):
        self.optimizer.zero_grad()
        for i, x in enumerate(batches):
            logits = self.model(x)
            loss = self.criterion(logits.reshape(-1, 20), x.reshape(-1)) / self.accumulate
            loss.backward()
            if (i + 1) % self.accumulate == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
        return loss.item()


torch.manual_seed(0)
trainer = Trainer()
data = [batch(longest) for longest in (12, 2, 8, 1, 12, 3, 2, 10)]
for e in range(2):
    print(e, f"{trainer.epoch(data):.4f}")
