"""timm-like loss scaler object; update() is not gated with the step."""
import torch
from torch import nn


class NativeScaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cpu", init_scale=128.0, growth_interval=2)

    def __call__(self, loss, optimizer, clip_grad=None, parameters=None, need_update=True):
        self._scaler.scale(loss).backward()
        if need_update:
            if clip_grad is not None:
                self._scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(parameters, clip_grad)
            self._scaler.step(optimizer)
            found = True
        else:
            self._scaler.scale(torch.zeros(()))
            found = False
        self._scaler.update(None if found else self._scaler.get_scale() / 2)

    def state_dict(self):
        return self._scaler.state_dict()


def train_one_epoch(model, optimizer, loss_scaler, accum=2):
    optimizer.zero_grad()
    for i in range(6):
        x = torch.randn(8, 6)
        y = x.sum(1, keepdim=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x).float(), y)
        need_update = (i + 1) % accum == 0
        loss_scaler(loss / accum, optimizer, clip_grad=1.0, parameters=list(model.parameters()), need_update=need_update)
        if need_update:
            optimizer.zero_grad()
    return loss.item()


torch.manual_seed(0)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = NativeScaler()
for epoch in range(2):
    print(f"{train_one_epoch(model, optimizer, scaler):.4f}")
