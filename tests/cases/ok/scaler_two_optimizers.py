"""One scaler for two models and two optimizers, updated once per iteration."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(502)
encoder, decoder = nn.Linear(6, 3), nn.Linear(3, 6)
enc_opt = torch.optim.SGD(encoder.parameters(), lr=0.1)
dec_opt = torch.optim.SGD(decoder.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)

for step in range(20):
    x = torch.randn(32, 6)
    code = encoder(x)
    reconstruction = F.mse_loss(decoder(code), x)
    decorrelation = 0.1 * (code.t() @ code / len(x) - torch.eye(3)).pow(2).mean()

    enc_opt.zero_grad()
    dec_opt.zero_grad()
    scaler.scale(reconstruction).backward(retain_graph=True)
    scaler.scale(decorrelation).backward()
    scaler.unscale_(enc_opt)
    scaler.step(enc_opt)
    scaler.step(dec_opt)
    scaler.update()
print(f"reconstruction {reconstruction.item():.4f} scale {scaler.get_scale()}")
