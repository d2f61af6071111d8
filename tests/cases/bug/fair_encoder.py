"""Learn features that hide a sensitive bit from an adversary."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(45)
encoder = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 6))
task_head = nn.Linear(6, 1)
adversary = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
main_opt = torch.optim.Adam([*encoder.parameters(), *task_head.parameters()], lr=3e-3)
adv_opt = torch.optim.Adam(adversary.parameters(), lr=3e-3)


def batch(n=40):
    x = torch.randn(n, 10)
    return x, (x[:, :3].sum(1) > 0).float(), (x[:, 3] > 0).float()


def train_adversary(x, hidden_bit):
    logits = adversary(encoder(x).detach()).squeeze(1)
    loss = F.binary_cross_entropy_with_logits(logits, hidden_bit)
    loss.backward()
    adv_opt.step()
    adv_opt.zero_grad()
    return loss


def train_main(x, y, hidden_bit):
    features = encoder(x)
    task = F.binary_cross_entropy_with_logits(task_head(features).squeeze(1), y)
    leak = F.binary_cross_entropy_with_logits(adversary(features).squeeze(1), hidden_bit)
    loss = task - 0.5 * leak
    loss.backward()
    main_opt.step()
    main_opt.zero_grad()
    return task


for it in range(40):
    x, y, bit = batch()
    adv_loss = train_adversary(x, bit)
    task_loss = train_main(x, y, bit)
print(f"task {task_loss.item():.4f} adversary {adv_loss.item():.4f}")
