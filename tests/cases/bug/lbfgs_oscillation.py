"""Fit a damped oscillation with L-BFGS."""
import torch


class Oscillation(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.amplitude = torch.nn.Parameter(torch.tensor(0.8))
        self.decay = torch.nn.Parameter(torch.tensor(0.2))
        self.omega = torch.nn.Parameter(torch.tensor(1.8))

    def forward(self, t):
        return self.amplitude * torch.exp(-self.decay * t) * torch.cos(self.omega * t)


torch.manual_seed(16)
t = torch.linspace(0, 6, 80)
observed = torch.exp(-0.3 * t) * torch.cos(2.0 * t) + 0.01 * torch.randn(80)
model = Oscillation()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)


def closure():
    loss = (model(t) - observed).pow(2).mean()
    loss.backward()
    return loss


for outer in range(5):
    value = optimizer.step(closure)
print(f"loss {value.item():.5f} omega {model.omega.item():.3f}")
