"""Character tagger: is each letter a vowel? The classic order of calls, almost."""
import torch
from torch import nn

ALPHABET = "abcdefghijklmnopqrstuvwxyz"
VOWELS = torch.tensor([c in "aeiou" for c in ALPHABET]).long()


class Tagger(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.embed = nn.Embedding(26, 8)
        self.lstm = nn.LSTM(8, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 2)

    def forward(self, x):
        h, _ = self.lstm(self.embed(x))
        return self.out(h)


def make_batches(n, batch, length):
    for _ in range(n):
        x = torch.randint(26, (batch, length))
        yield x, VOWELS[x]


def train(args):
    torch.manual_seed(args["seed"])
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=args["lr"])
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(args["epochs"]):
        model.train()
        optimizer.zero_grad()
        for x, y in make_batches(8, 16, 7):
            logits = model(x)
            loss = loss_fn(logits.flatten(0, 1), y.flatten())
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")
    return model


train({"seed": 14, "lr": 0.05, "epochs": 3})
