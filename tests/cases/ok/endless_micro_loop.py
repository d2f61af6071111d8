"""Step-based training with an inner micro-batch loop over an endless stream."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(111)
ids = torch.randint(0, 20, (60, 9))
loader = DataLoader(TensorDataset(ids), batch_size=5, shuffle=True)
model = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 20))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
max_steps, grad_accum = 12, 3

stream = iter(loader)
epoch = 0
for step in range(max_steps):
    optimizer.zero_grad(set_to_none=True)
    lossf = 0.0
    for micro_step in range(grad_accum):
        try:
            (batch,) = next(stream)
        except StopIteration:
            epoch += 1
            stream = iter(loader)
            (batch,) = next(stream)
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss = loss / grad_accum
        lossf += loss.item()
        loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step} epoch {epoch} loss {lossf:.4f} norm {norm:.3f}")
