"""Accumulation and mixed precision; the two calls at the end of a window are swapped."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(93)
options = dict(accum=2, max_norm=0.3, epochs=2)
signal = torch.randn(48, 12)
labels = signal.view(48, 3, 4).sum(2).argmax(1)
loader = DataLoader(TensorDataset(signal, labels), batch_size=6)
net = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.2)
scaler = torch.amp.GradScaler("cpu", init_scale=32.0)

for epoch in range(options["epochs"]):
    opt.zero_grad()
    for n, (x, y) in enumerate(loader, start=1):
        with torch.autocast("cpu", dtype=torch.float16):
            out = net(x)
        loss = nn.functional.cross_entropy(out.float(), y)
        scaler.scale(loss / options["accum"]).backward()
        if n % options["accum"] == 0:
            nn.utils.clip_grad_norm_(net.parameters(), options["max_norm"])
            scaler.unscale_(opt)
            scaler.step(opt)
            scaler.update()
            opt.zero_grad()
    print(f"epoch {epoch} loss {loss.item():.4f}")
