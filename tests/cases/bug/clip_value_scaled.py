"""Half-precision policy distillation; values are clipped in a helper."""
import torch
from torch import nn
from torch.amp import GradScaler, autocast


def limit(params, bound):
    nn.utils.clip_grad_value_(params, bound)


class Distiller:
    def __init__(self):
        self.teacher = nn.Linear(6, 4).requires_grad_(False)
        self.student = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
        self.optimizer = torch.optim.Adam(self.student.parameters(), lr=3e-3)
        self.scaler = GradScaler("cpu", init_scale=1024.0)

    def step(self, states):
        self.optimizer.zero_grad()
        target = self.teacher(states).softmax(1)
        with autocast("cpu", dtype=torch.float16):
            logits = self.student(states)
        loss = nn.functional.cross_entropy(logits.float(), target)
        self.scaler.scale(loss).backward()
        limit(self.student.parameters(), 0.1)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()


torch.manual_seed(92)
distiller = Distiller()
losses = [distiller.step(torch.randn(24, 6)) for _ in range(20)]
print(f"first {losses[0]:.4f} last {losses[-1]:.4f}")
