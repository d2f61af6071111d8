"""Non-saturating GAN with R1 regularisation of the discriminator every k steps."""
import torch
from torch import autograd, nn
from torch.nn import functional as F


def d_r1_loss(real_pred, real_img):
    (grad_real,) = autograd.grad(outputs=real_pred.sum(), inputs=real_img, create_graph=True)
    return grad_real.pow(2).sum(1).mean()


def train(steps=16, d_reg_every=4, r1=1.0):
    generator = nn.Sequential(nn.Linear(4, 16), nn.Softplus(), nn.Linear(16, 3))
    discriminator = nn.Sequential(nn.Linear(3, 16), nn.Softplus(), nn.Linear(16, 1))
    g_optim = torch.optim.Adam(generator.parameters(), lr=2e-3)
    d_optim = torch.optim.Adam(discriminator.parameters(), lr=2e-3)
    for i in range(steps):
        real_img = torch.rand(24, 3)
        fake_img = generator(torch.randn(24, 4)).detach()
        d_loss = F.softplus(-discriminator(real_img)).mean() + F.softplus(discriminator(fake_img)).mean()
        discriminator.zero_grad()
        d_loss.backward()
        d_optim.step()

        if i % d_reg_every == 0:
            real_img.requires_grad = True
            real_pred = discriminator(real_img)
            r1_loss = d_r1_loss(real_pred, real_img)
            discriminator.zero_grad()
            (r1 / 2 * r1_loss * d_reg_every + 0 * real_pred[0]).backward()
            d_optim.step()

        g_loss = F.softplus(-discriminator(generator(torch.randn(24, 4)))).mean()
        generator.zero_grad()
        g_loss.backward()
        g_optim.step()
    return d_loss.item(), g_loss.item(), r1_loss.item()


torch.manual_seed(206)
print("d {:.4f} g {:.4f} r1 {:.4f}".format(*train()))
