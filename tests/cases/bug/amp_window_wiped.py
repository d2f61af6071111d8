"""Keyword spotting on synthetic tones, float16 autocast and gradient accumulation."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(23)
GRAD_ACCUM = 2
freq = torch.randint(1, 5, (64,))
wave = torch.sin(torch.linspace(0, 6.28, 40)[None] * freq[:, None]) + 0.2 * torch.randn(64, 40)
loader = DataLoader(TensorDataset(wave.unsqueeze(1), freq - 1), batch_size=8, shuffle=True)

model = nn.Sequential(nn.Conv1d(1, 8, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)

for epoch in range(2):
    for batch_idx, (x, y) in enumerate(loader):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
        loss = nn.functional.cross_entropy(logits.float(), y) / GRAD_ACCUM
        scaler.scale(loss).backward()
        if (batch_idx + 1) % GRAD_ACCUM == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    print(f"epoch {epoch} loss {loss.item() * GRAD_ACCUM:.4f}")
