"""Actor and critic that are updated by one helper."""
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
    loss.backward()
    optimizers[name].step()
    optimizers[name].zero_grad()


for state in torch.randn(6, 8, 4):
    action, reward = torch.randn(8, 2), torch.randn(8, 1)
    update("critic", (critic(torch.cat([state, action], 1)) - reward).square().mean())
    update("actor", -critic(torch.cat([state, actor(state)], 1)).mean())
