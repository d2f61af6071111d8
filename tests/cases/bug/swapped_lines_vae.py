"""Tiny variational autoencoder on noisy bit patterns."""
import torch
from torch import nn
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self, dim=20, latent=3):
        super().__init__()
        self.enc = nn.Linear(dim, 2 * latent)
        self.dec = nn.Linear(latent, dim)

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


def elbo(recon, x, mu, logvar):
    bce = F.binary_cross_entropy_with_logits(recon, x)
    kld = -0.5 * torch.mean(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + 0.1 * kld


def train_epoch(model, optimizer, patterns):
    total = 0.0
    for _ in range(12):
        x = patterns[torch.randint(len(patterns), (16,))]
        recon, mu, logvar = model(x)
        loss = elbo(recon, x, mu, logvar)
        loss.backward()
        total += loss.item()
        optimizer.zero_grad()
        optimizer.step()
    return total / 12


if __name__ == "__main__":
    torch.manual_seed(21)
    patterns = (torch.rand(5, 20) > 0.5).float()
    vae = VAE()
    optimizer = torch.optim.Adam(vae.parameters(), lr=0.01)
    for epoch in range(3):
        print(f"epoch {epoch} elbo {train_epoch(vae, optimizer, patterns):.4f}")
