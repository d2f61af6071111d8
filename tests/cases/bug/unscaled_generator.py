"""Half-precision GAN with one scaler for both players."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(95)
gen = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
dis = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 1))
opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(dis.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)

for step in range(20):
    real = torch.randn(24, 2) * 0.5 + 1
    with torch.autocast("cpu", dtype=torch.float16):
        fake = gen(torch.randn(24, 4))
        scores = dis(torch.cat([real, fake.detach().float()])).float()
    d_loss = F.softplus(-scores[:24]).mean() + F.softplus(scores[24:]).mean()
    opt_d.zero_grad()
    scaler.scale(d_loss).backward()
    scaler.step(opt_d)

    with torch.autocast("cpu", dtype=torch.float16):
        score = dis(gen(torch.randn(24, 4))).float()
    g_loss = F.softplus(-score).mean()
    opt_g.zero_grad()
    g_loss.backward()
    scaler.step(opt_g)
    scaler.update()
print(f"d {d_loss.item():.4f} g {g_loss.item():.4f}")
