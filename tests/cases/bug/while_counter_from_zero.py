"""VAE trained by a while loop with a global step that starts at zero."""
import torch
import torch.nn.functional as F
from torch import nn


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(10, 2 * 3), nn.Linear(3, 10)

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, 1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).mean()
        return F.mse_loss(self.dec(z), x) + 0.1 * kl


torch.manual_seed(4)
model = VAE()
opt = torch.optim.Adam(model.parameters(), 1e-2)
grad_accum, max_steps = 4, 25
global_step = 0
while global_step < max_steps:
    x = torch.randn(16, 10)
    loss = model(x) / grad_accum
    loss.backward()
    if global_step % grad_accum == 0:
        opt.step()
        opt.zero_grad()
    global_step += 1
print(f"{loss.item() * grad_accum:.4f}")
