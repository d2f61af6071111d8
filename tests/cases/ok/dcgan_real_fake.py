"""DCGAN schedule: D gets a real and a fake backward, then one step; G follows."""
import torch
import torch.nn as nn

torch.manual_seed(201)
nz, nf = 4, 16
netG = nn.Sequential(nn.Linear(nz, nf), nn.ReLU(True), nn.Linear(nf, 2))
netD = nn.Sequential(nn.Linear(2, nf), nn.LeakyReLU(0.2, inplace=True), nn.Linear(nf, 1), nn.Sigmoid())
criterion = nn.BCELoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
data = torch.randn(128, 2) * 0.3 + torch.tensor([1.0, -1.0])

for epoch in range(2):
    for i, real in enumerate(data.split(16)):
        netD.zero_grad()
        label = torch.full((len(real),), 1.0)
        output = netD(real).view(-1)
        errD_real = criterion(output, label)
        errD_real.backward()

        fake = netG(torch.randn(len(real), nz))
        label.fill_(0.0)
        output = netD(fake.detach()).view(-1)
        errD_fake = criterion(output, label)
        errD_fake.backward()
        optimizerD.step()

        netG.zero_grad()
        label.fill_(1.0)
        output = netD(fake).view(-1)
        errG = criterion(output, label)
        errG.backward()
        optimizerG.step()
    print(f"[{epoch}] D {(errD_real + errD_fake).item():.3f} G {errG.item():.3f}")
