"""A callable loss scaler in the style of image training libraries."""
import torch
from torch import nn


class NativeScaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cpu", init_scale=512.0)

    def __call__(self, loss, optimizer, clip_grad=None, parameters=None, need_update=True):
        self._scaler.scale(loss).backward()
        if need_update:
            if clip_grad is not None:
                self._scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(parameters, clip_grad)
            self._scaler.step(optimizer)
            self._scaler.update()


def train_one_epoch(model, loader, optimizer, loss_scaler, accum=2):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        need_update = (i + 1) % accum == 0
        loss = nn.functional.cross_entropy(model(x), y) / accum

        def _backward(_loss):
            loss_scaler(_loss, optimizer, clip_grad=1.0, parameters=model.parameters(), need_update=need_update)

        _backward(loss)
        if not need_update:
            continue
        optimizer.zero_grad()
    return loss.item() * accum


torch.manual_seed(602)
loader = [(x, x[:, :2].argmax(1)) for x in torch.randn(8, 12, 4)]
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = NativeScaler()
for epoch in range(3):
    print(f"epoch {epoch} loss {train_one_epoch(model, loader, optimizer, scaler):.4f}")
