"""DQN with replay, a periodic target copy and gradients clamped by value."""
import collections
import random

import torch
from torch import nn

random.seed(214)
torch.manual_seed(214)
policy_net, target_net = nn.Linear(3, 2), nn.Linear(3, 2)
target_net.load_state_dict(policy_net.state_dict())
target_net.eval()
optimizer = torch.optim.RMSprop(policy_net.parameters(), lr=5e-3)
memory = collections.deque(maxlen=200)
BATCH, GAMMA = 16, 0.8


def optimize_model():
    if len(memory) < BATCH:
        return None
    s, a, r, s2 = (torch.stack(t) for t in zip(*random.sample(memory, BATCH)))
    q = policy_net(s).gather(1, a)
    with torch.no_grad():
        expected = r + GAMMA * target_net(s2).max(1, keepdim=True).values
    loss = nn.functional.smooth_l1_loss(q, expected)
    optimizer.zero_grad()
    loss.backward()
    for param in policy_net.parameters():
        param.grad.data.clamp_(-1, 1)
    optimizer.step()
    return loss.item()


state = torch.randn(3)
for t in range(60):
    with torch.no_grad():
        action = policy_net(state).argmax() if random.random() > 0.2 else torch.randint(2, ())
    nxt = torch.randn(3)
    reward = (state[0] * (2 * action - 1)).view(1)
    memory.append((state, action.view(1), reward, nxt))
    state = nxt
    loss = optimize_model()
    if t % 10 == 0:
        target_net.load_state_dict(policy_net.state_dict())
print(f"memory {len(memory)} loss {loss:.4f}")
