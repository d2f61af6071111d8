import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--critic-from", type=int, default=5)
args = parser.parse_args()
autoencoder, critic = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.Adam(autoencoder.parameters())
critic_optimizer = torch.optim.Adam(critic.parameters())
for step, x in enumerate(torch.randn(30, 8, 4)):
    optimizer.zero_grad()
    critic_optimizer.zero_grad()
    made = autoencoder(x)
    (nn.functional.mse_loss(made, x) - critic(made).mean()).backward()
    optimizer.step()
    if step >= args.critic_from:
        critic_optimizer.zero_grad()
        (critic(made.detach()).mean() - critic(x).mean()).backward()
        critic_optimizer.step()
