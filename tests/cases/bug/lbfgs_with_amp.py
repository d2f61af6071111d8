import torch
from torch.amp.grad_scaler import GradScaler

torch.manual_seed(0)
data = [torch.randn(8, 4) for _ in range(6)]


class Trainer:
    def __init__(self, kind, half):
        self.model = torch.nn.Linear(4, 1)
        if kind == "lbfgs":
            self.optimizer = torch.optim.LBFGS(self.model.parameters(), max_iter=1)
        else:
            self.optimizer = torch.optim.Adam(self.model.parameters())
        if half and isinstance(self.optimizer, torch.optim.Adam):
            half = False
        self.scaler = GradScaler("cpu", init_scale=128.0, enabled=half)

    def update(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        self.scaler.scale(loss).backward()
        if isinstance(self.optimizer, torch.optim.LBFGS):
            self.optimizer.step(lambda: loss)
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()


trainer = Trainer("lbfgs", True)
for x in data:
    trainer.update(x)
