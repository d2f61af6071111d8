"""Actor and critic that are updated by one helper, then two heads of one trunk by another."""
import torch
from torch import nn

torch.manual_seed(5)
actor = nn.Linear(4, 2)
critic = nn.Linear(6, 1)
optimizers = {
    "actor": torch.optim.Adam(actor.parameters(), lr=0.01),
    "critic": torch.optim.Adam(critic.parameters(), lr=0.01),
}


def update(name, loss):
    optimizers[name].zero_grad()
    loss.backward()
    optimizers[name].step()


for state in torch.randn(6, 8, 4):
    action, reward = torch.randn(8, 2), torch.randn(8, 1)
    update("critic", (critic(torch.cat([state, action], 1)) - reward).square().mean())
    update("actor", -critic(torch.cat([state, actor(state)], 1)).mean())

trunk, heads = nn.Linear(4, 4), [nn.Linear(4, 1), nn.Linear(4, 1)]
of_trunk = torch.optim.SGD(trunk.parameters(), lr=0.01)
of_heads = [torch.optim.SGD(head.parameters(), lr=0.01) for head in heads]


def learn(head, optimizer, x):
    optimizer.zero_grad()
    (head(trunk(x)).square().mean() / 2).backward()
    optimizer.step()


for x in torch.randn(6, 8, 4):
    for head, optimizer in zip(heads, of_heads):
        learn(head, optimizer, x)
    of_trunk.step()
    of_trunk.zero_grad()
