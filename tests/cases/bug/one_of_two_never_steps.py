import torch
from torch import nn

encoder, decoder = nn.Linear(4, 2), nn.Linear(2, 4)
encoder_optimizer = torch.optim.Adam(encoder.parameters())
decoder_optimizer = torch.optim.Adam(decoder.parameters())
for x in torch.randn(30, 8, 4):
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    nn.functional.mse_loss(decoder(encoder(x)), x).backward()
    encoder_optimizer.step()
