"""DQN in the tutorial's shape, with gradients clamped by hand."""
import math
import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.optim as optim

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))
BATCH_SIZE, GAMMA, TARGET_UPDATE = 16, 0.9, 10
random.seed(0)
torch.manual_seed(0)


class DQN(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(2, 24), nn.Linear(24, 3)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


policy_net, target_net = DQN(), DQN()
target_net.load_state_dict(policy_net.state_dict())
target_net.eval()
optimizer = optim.RMSprop(policy_net.parameters(), lr=1e-3)
memory = deque(maxlen=500)


def select_action(state, steps_done):
    eps = 0.05 + 0.85 * math.exp(-steps_done / 50)
    if random.random() > eps:
        with torch.no_grad():
            return policy_net(state).max(1)[1].view(1, 1)
    return torch.tensor([[random.randrange(3)]])


def optimize_model():
    if len(memory) < BATCH_SIZE:
        return
    batch = Transition(*zip(*random.sample(list(memory), BATCH_SIZE)))
    state = torch.cat(batch.state)
    q = policy_net(state).gather(1, torch.cat(batch.action))
    with torch.no_grad():
        nxt = target_net(torch.cat(batch.next_state)).max(1)[0]
    expected = nxt * GAMMA + torch.cat(batch.reward)
    loss = nn.SmoothL1Loss()(q, expected.unsqueeze(1))
    loss.backward()
    for param in policy_net.parameters():
        param.grad.data.clamp_(-1, 1)
    optimizer.step()


state = torch.zeros(1, 2)
for t in range(60):
    action = select_action(state, t)
    nxt = (state + (action.float() - 1) * 0.1).clamp(-1, 1)
    memory.append(Transition(state, action, nxt, -nxt.pow(2).sum(1)))
    state = nxt
    optimize_model()
    if t % TARGET_UPDATE == 0:
        target_net.load_state_dict(policy_net.state_dict())
print("done", len(memory))
