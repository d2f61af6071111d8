"""Language-model trainer: clipping sits next to backward, inside the window."""
import torch
from torch import nn


class LM(nn.Module):
    def __init__(self, vocab=16, dim=12):
        super().__init__()
        self.emb, self.rnn, self.out = nn.Embedding(vocab, dim), nn.GRU(dim, dim, batch_first=True), nn.Linear(dim, vocab)

    def forward(self, t):
        return self.out(self.rnn(self.emb(t))[0])


class Trainer:
    def __init__(self, model, accum=4, max_norm=0.25):
        self.model, self.accum, self.max_norm = model, accum, max_norm
        self.opt = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def backward(self, loss):
        (loss / self.accum).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)

    def train(self, tokens):
        self.opt.zero_grad()
        for i, t in enumerate(tokens.split(4)):
            logits = self.model(t[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), t[:, 1:].flatten())
            self.backward(loss)
            if (i + 1) % self.accum == 0:
                self.opt.step()
                self.opt.zero_grad()
        return loss.item()


torch.manual_seed(0)
trainer = Trainer(LM())
tokens = torch.randint(0, 16, (32, 9))
for epoch in range(2):
    print(epoch, f"{trainer.train(tokens):.4f}")
