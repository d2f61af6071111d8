"""Centre loss: the criterion has weights of its own."""
import torch
from torch import nn


class CenterLoss(nn.Module):
    def __init__(self, classes, dim):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(classes, dim))

    def forward(self, features, labels):
        return (features - self.centers[labels]).pow(2).sum(1).mean()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(6, 16), nn.PReLU(), nn.Linear(16, 4))
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        f = self.features(x)
        return f, self.fc(f)


def train(epochs=3):
    torch.manual_seed(11)
    model = Net()
    xent, center = nn.CrossEntropyLoss(), CenterLoss(3, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(epochs):
        for _ in range(8):
            x = torch.randn(24, 6)
            y = x[:, :3].argmax(1)
            features, logits = model(x)
            loss = xent(logits, y) + 0.01 * center(features, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, round(loss.item(), 4))


if __name__ == "__main__":
    train()
