"""Metric learning with a triplet loss; weights are kept in a list for the optimizer."""
import torch
import torch.nn as nn


def build():
    net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 4))
    weights = [p.detach().clone().requires_grad_() for p in net.parameters()]
    return net, torch.optim.Adam(weights, lr=1e-3)


def triplets(n):
    label = torch.randint(0, 2, (n,))
    same, other = torch.eye(6)[label * 3], torch.eye(6)[3 - label * 3]
    noise = 0.3 * torch.randn(3, n, 6)
    return same + noise[0], same + noise[1], other + noise[2]


def main():
    torch.manual_seed(32)
    net, optimizer = build()
    criterion = nn.TripletMarginLoss(margin=1.0)
    for step in range(15):
        anchor, pos, neg = triplets(24)
        loss = criterion(net(anchor), net(pos), net(neg))
        net.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"triplet loss {loss.item():.4f}")


main()
