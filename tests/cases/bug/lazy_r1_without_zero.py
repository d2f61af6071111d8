"""Lazy R1 regularisation every fourth iteration, without clearing first."""
import torch
import torch.nn.functional as F
from torch import autograd, nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
g_optim = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.0, 0.99))
d_optim = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.0, 0.99))


def requires_grad(model, flag):
    for p in model.parameters():
        p.requires_grad = flag


def d_r1_loss(real_pred, real_img):
    (grad,) = autograd.grad(real_pred.sum(), real_img, create_graph=True)
    return grad.pow(2).reshape(grad.shape[0], -1).sum(1).mean()


for i in range(12):
    real = torch.randn(16, 2) + 1.0
    requires_grad(G, False)
    requires_grad(D, True)
    d_loss = F.softplus(-D(real)).mean() + F.softplus(D(G(torch.randn(16, 4)))).mean()
    D.zero_grad()
    d_loss.backward()
    d_optim.step()

    if i % 4 == 0:
        real = real.detach().requires_grad_(True)
        r1 = d_r1_loss(D(real), real)
        (5.0 * r1 * 4).backward()
        d_optim.step()

    requires_grad(G, True)
    requires_grad(D, False)
    g_loss = F.softplus(-D(G(torch.randn(16, 4)))).mean()
    G.zero_grad()
    g_loss.backward()
    g_optim.step()
print(f"d {d_loss.item():.3f} g {g_loss.item():.3f} r1 {r1.item():.4f}")
