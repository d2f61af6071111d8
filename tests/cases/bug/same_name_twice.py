"""Encoder and decoder with an optimizer each."""
import torch
from torch import nn


def train(pairs, encoder, decoder, lr=1e-2):
    encoder_optimizer = torch.optim.SGD(encoder.parameters(), lr=lr)
    decoder_optimizer = torch.optim.SGD(decoder.parameters(), lr=lr)
    for source, target in pairs:
        encoder_optimizer.zero_grad()
        encoder_optimizer.zero_grad()

        _, memory = encoder(source)
        out, _ = decoder(target[:, :-1], memory)
        loss = nn.functional.mse_loss(out, target[:, 1:])
        loss.backward()

        encoder_optimizer.step()
        decoder_optimizer.step()
    return loss.item()


torch.manual_seed(153)
pairs = []
for _ in range(20):
    source = torch.randn(8, 5, 6).cumsum(1) * 0.2
    pairs.append((source, source.flip(1)))
print(f"loss {train(pairs, nn.GRU(6, 6, batch_first=True), nn.GRU(6, 6, batch_first=True)):.4f}")
