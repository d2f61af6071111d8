"""WGAN-GP with an inner critic loop and an endless data iterator."""
import torch
from torch import autograd, nn, optim


def inf_train_gen(batch):
    while True:
        yield torch.randn(batch, 2) * 0.2 + torch.tensor([1.0, -1.0])


def calc_gradient_penalty(netD, real, fake, lam=0.1):
    alpha = torch.rand(real.size(0), 1).expand_as(real)
    inter = autograd.Variable(alpha * real + (1 - alpha) * fake, requires_grad=True)
    out = netD(inter)
    grads = autograd.grad(outputs=out, inputs=inter, grad_outputs=torch.ones(out.size()), create_graph=True, retain_graph=True, only_inputs=True)[0]
    return ((grads.norm(2, dim=1) - 1) ** 2).mean() * lam


torch.manual_seed(0)
netG = nn.Sequential(nn.Linear(2, 16), nn.ReLU(True), nn.Linear(16, 2))
netD = nn.Sequential(nn.Linear(2, 16), nn.ReLU(True), nn.Linear(16, 1))
optimizerD = optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.9))
optimizerG = optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.9))
one, mone = torch.tensor(1.0), torch.tensor(-1.0)
data = inf_train_gen(16)

for iteration in range(5):
    for p in netD.parameters():
        p.requires_grad = True
    for iter_d in range(3):
        real = next(data)
        netD.zero_grad()
        D_real = netD(real).mean()
        D_real.backward(mone)
        with torch.no_grad():
            fake = netG(torch.randn(16, 2))
        D_fake = netD(fake).mean()
        D_fake.backward(one)
        gp = calc_gradient_penalty(netD, real, fake)
        gp.backward()
        optimizerD.step()
    for p in netD.parameters():
        p.requires_grad = False
    netG.zero_grad()
    G_out = netD(netG(torch.randn(16, 2))).mean()
    G_out.backward(mone)
    optimizerG.step()
print(f"W {(D_real - D_fake).item():.3f} G {-G_out.item():.3f}")
