"""One scaler, two rhythms: the encoder accumulates four batches, the probe steps on each."""
import torch
from torch import nn

WINDOW = 4
torch.manual_seed(98)
encoder = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
probe = nn.Linear(8, 2)
enc_opt = torch.optim.SGD(encoder.parameters(), lr=0.05)
probe_opt = torch.optim.SGD(probe.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=3)

for i in range(1, 25):
    x = torch.randn(12, 8)
    label = (x[:, 0] > 0).long()
    with torch.autocast("cpu", dtype=torch.float16):
        code = encoder(x)
        logits = probe(code.detach())

    reconstruction = nn.functional.mse_loss(code.float(), x) / WINDOW
    scaler.scale(reconstruction).backward()
    if i % WINDOW == 0:
        scaler.step(enc_opt)
        enc_opt.zero_grad()

    probe_loss = nn.functional.cross_entropy(logits.float(), label)
    probe_opt.zero_grad()
    scaler.scale(probe_loss).backward()
    scaler.step(probe_opt)
    scaler.update()
print(f"probe {probe_loss.item():.4f} scale {scaler.get_scale():.0f}")
