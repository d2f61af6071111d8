"""LoRA done in the right order, then merged into the base weights."""
import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r=2, alpha=4):
        super().__init__()
        self.base, self.scale = base, alpha / r
        self.lora_A = nn.Parameter(torch.randn(r, base.in_features) * 0.02)
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.lora_A.T) @ self.lora_B.T

    @torch.no_grad()
    def merge(self):
        self.base.weight += self.scale * self.lora_B @ self.lora_A
        return self.base


def mark_only_lora_as_trainable(model):
    for n, p in model.named_parameters():
        p.requires_grad = "lora_" in n


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
for i in (0, 2):
    model[i] = LoRALinear(model[i])
mark_only_lora_as_trainable(model)
trainable = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trainable, lr=1e-2)
for step in range(15):
    x = torch.randn(16, 6)
    loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    loss.backward()
    nn.utils.clip_grad_norm_(trainable, 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
for i in (0, 2):
    model[i] = model[i].merge()
print(f"{loss.item():.4f} {sum(p.requires_grad for p in model.parameters())}")
