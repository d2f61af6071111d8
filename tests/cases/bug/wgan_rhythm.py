"""Wasserstein GAN with weight clipping; the generator moves on every third batch."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

N_CRITIC, CLIP = 3, 0.05


def make(i, o, h=24):
    return nn.Sequential(nn.Linear(i, h), nn.LeakyReLU(0.1), nn.Linear(h, o))


def main():
    torch.manual_seed(44)
    samples = torch.cat([torch.randn(90, 1) - 2, torch.randn(90, 1) * 0.5 + 2])
    loader = DataLoader(TensorDataset(samples), batch_size=15, shuffle=True)
    generator, critic = make(2, 1), make(1, 1)
    optimizer_G = optim.RMSprop(generator.parameters(), lr=1e-3)
    optimizer_C = optim.RMSprop(critic.parameters(), lr=1e-3)

    batches_done = 0
    for epoch in range(3):
        for (real,) in loader:
            fake = generator(torch.randn(len(real), 2)).detach()
            loss_C = critic(fake).mean() - critic(real).mean()
            loss_C.backward()
            optimizer_C.step()
            optimizer_C.zero_grad()
            with torch.no_grad():
                for p in critic.parameters():
                    p.clamp_(-CLIP, CLIP)

            batches_done += 1
            if batches_done % N_CRITIC == 0:
                optimizer_G.zero_grad()
                loss_G = -critic(generator(torch.randn(len(real), 2))).mean()
                loss_G.backward()
                optimizer_G.step()
        print(f"epoch {epoch} critic {loss_C.item():.4f} generator {loss_G.item():.4f}")


if __name__ == "__main__":
    main()
