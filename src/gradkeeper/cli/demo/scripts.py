"""The scripts that the demo works on, as a user would have written them."""

THREE_BUGS = """\
import torch
from torch import nn
from torch.nn.functional import mse_loss

torch.manual_seed(0)
batches = torch.randn(64, 8, 4)

teacher = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(teacher.parameters(), lr=0.005)
for x in batches:
    loss = mse_loss(teacher(x), x.sum(dim=1, keepdim=True))
    loss.backward()
    optimizer.step()
print(f"teacher: loss {loss.item():.2f}")

student = nn.Linear(4, 1)
student_optimizer = torch.optim.SGD(student.parameters(), lr=0.2)
scaler = torch.amp.GradScaler("cpu")
for step, x in enumerate(batches, 1):
    student_optimizer.zero_grad()
    loss = mse_loss(student(x), teacher(x).detach())
    scaler.scale(loss / 4).backward()
    if step % 4 == 0:
        nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        scaler.step(student_optimizer)
        scaler.update()
print(f"student: loss {loss.item():.2f}")
"""

BUGS = {"GK101": 13, "GK102": 20, "GK301": 24}
"""What is wrong with it, and where."""

CHARACTERS = """\
import hashlib
import sys
from pydoc_data.topics import topics

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from gradkeeper import Engine


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(128, 32)
        self.rnn = nn.GRU(32, 64, batch_first=True)
        self.out = nn.Sequential(nn.Dropout(0.1), nn.Linear(64, 128))

    def forward(self, x):
        return self.out(self.rnn(self.table(x))[0])


torch.manual_seed(0)
text = "".join(topics[name] for name in sorted(topics)).encode("ascii", "replace")
pieces = torch.tensor(list(text[:16384])).view(-1, 64)
loader = DataLoader(pieces, batch_size=4, shuffle=True)
model = Reader()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
engine = Engine(model, optimizer, clip_norm=1.0, checkpoint=sys.argv[1])
if engine.resume():
    print("resumed after step", engine.steps["optimizer"], flush=True)

for window in engine.windows(loader, size=8, epochs=3):
    with window:
        for number, x in enumerate(window, 1):
            loss = cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
            window.backward(loss, weight=len(x))
            print("micro-batch", number, flush=True)
            if number == 3:
                engine.save()
    print(f"step {window.step}: loss {window.loss:.3f}", flush=True)

weights = b"".join(one.detach().numpy().tobytes() for one in model.parameters())
print("weights", hashlib.sha256(weights).hexdigest(), flush=True)
"""
