"""Image-text matching with a learned temperature next to the model."""
import torch
from torch import nn
import torch.nn.functional as F


class Towers(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.image = nn.Linear(12, dim)
        self.text = nn.Linear(9, dim)

    def forward(self, image, text):
        return F.normalize(self.image(image), dim=1), F.normalize(self.text(text), dim=1)


torch.manual_seed(151)
model = Towers()
log_temperature = nn.Parameter(torch.tensor(0.0))
optimizer = torch.optim.Adam([*model.parameters(), log_temperature], lr=1e-2)
mix_i, mix_t = torch.randn(5, 12), torch.randn(5, 9)

for step in range(25):
    topic = torch.randn(16, 5)
    image, text = model(topic @ mix_i, topic @ mix_t)
    logits = image @ text.t() * log_temperature.exp()
    loss = F.cross_entropy(logits, torch.arange(16))
    model.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f} temperature {log_temperature.exp().item():.4f}")
