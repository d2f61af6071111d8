"""The second optimizer of a list steps on every second batch, and its loss is never sent back."""
import torch
from torch import nn

torch.manual_seed(13)


def stream():
    for _ in range(8):
        yield torch.randn(4, 3)


critic, actor = nn.Linear(3, 1), nn.Linear(3, 3)
optimizers = [
    torch.optim.SGD(critic.parameters(), lr=0.01),
    torch.optim.SGD(actor.parameters(), lr=0.01),
]
for i, x in enumerate(stream()):
    for turn in range(2):
        optimizers[0].zero_grad()
        loss = critic(actor(x).detach()).tanh().mean() - critic(x).mean()
        loss.backward()
        optimizers[0].step()
    if i % 2 == 0:
        optimizers[1].zero_grad()
        loss = -critic(actor(x)).mean()
        optimizers[1].step()
