"""U-shaped denoiser in half precision; clipping without unscaling."""
import torch
import torch.nn as nn


class Denoise(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.down = nn.Conv1d(1, width, 4, 2, 1)
        self.up = nn.ConvTranspose1d(width, 1, 4, 2, 1)

    def forward(self, x):
        return x + self.up(torch.relu(self.down(x)))


def train_net(net, epochs=2, steps=8, gradient_clipping=1.0):
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3, momentum=0.9)
    grad_scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    for epoch in range(1, epochs + 1):
        epoch_loss = 0.0
        for _ in range(steps):
            clean = torch.sin(torch.linspace(0, 9, 32) + torch.rand(8, 1, 1) * 6)
            with torch.autocast("cpu", dtype=torch.float16):
                restored = net(clean + 0.2 * torch.randn_like(clean))
            loss = nn.functional.mse_loss(restored.float(), clean)
            optimizer.zero_grad(set_to_none=True)
            grad_scaler.scale(loss).backward()
            nn.utils.clip_grad_norm_(net.parameters(), gradient_clipping)
            grad_scaler.step(optimizer)
            grad_scaler.update()
            epoch_loss += loss.item()
        print(f"epoch {epoch} loss {epoch_loss / steps:.4f}")


torch.manual_seed(91)
train_net(Denoise())
