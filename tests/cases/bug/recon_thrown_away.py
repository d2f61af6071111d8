"""Sparse autoencoder with two losses, each with a backward of its own."""
import torch
from torch import nn


class SparseAE(nn.Module):
    def __init__(self, visible=12, hidden=30):
        super().__init__()
        self.encoder = nn.Linear(visible, hidden)
        self.decoder = nn.Linear(hidden, visible)

    def encode(self, x):
        return torch.relu(self.encoder(x))


def train(model, optimizer, data, batch_size):
    for start in range(0, len(data), batch_size):
        x = data[start:start + batch_size]

        optimizer.zero_grad()
        recon_loss = nn.functional.mse_loss(model.decoder(model.encode(x)), x)
        recon_loss.backward()

        optimizer.zero_grad()
        sparse_loss = 1e-2 * model.encode(x).abs().mean()
        sparse_loss.backward()
        optimizer.step()
    return recon_loss.item(), sparse_loss.item()


torch.manual_seed(24)
model = SparseAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
data = torch.randn(160, 4) @ torch.randn(4, 12)
for epoch in range(4):
    recon, sparse = train(model, optimizer, data, batch_size=20)
    print(f"epoch {epoch} reconstruction {recon:.4f} sparsity {sparse:.5f}")
