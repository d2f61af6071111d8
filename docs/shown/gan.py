import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
generator_opt = torch.optim.Adam(generator.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
judge = nn.BCEWithLogitsLoss()
for real in torch.randn(30, 16, 2):
    fake = generator(torch.randn(16, 4))
    critic_opt.zero_grad()
    judge(critic(real), torch.ones(16, 1)).backward()
    judge(critic(fake.detach()), torch.zeros(16, 1)).backward()
    critic_opt.step()
    generator_opt.zero_grad()
    judge(critic(fake), torch.ones(16, 1)).backward()
    generator_opt.step()
