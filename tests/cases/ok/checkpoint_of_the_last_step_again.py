import os
import tempfile

import torch

torch.manual_seed(0)
size = int(os.environ.get("WINDOW", "3"))
every = int(os.environ.get("SAVE_EVERY", "2"))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
loader = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(24)]
folder = tempfile.mkdtemp()
done = 0
for epoch in range(2):
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(x), y) / size
        loss.backward()
        if (i + 1) % size == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
            done += 1
        if done > 0 and done % every == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, os.path.join(folder, f"step_{done}.pt"))
