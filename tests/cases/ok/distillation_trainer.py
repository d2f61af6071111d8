"""Two students learn from one teacher; closures hold each student's optimizer."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(524)
teacher = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 4)).eval()


def make_update(student, lr, temperature=2.0):
    optimizer = torch.optim.Adam(student.parameters(), lr=lr)

    def update(x):
        with torch.no_grad():
            soft = F.softmax(teacher(x) / temperature, dim=1)
        loss = F.kl_div(F.log_softmax(student(x) / temperature, dim=1), soft, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return update


updates = [make_update(nn.Linear(5, 4), 0.01), make_update(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4)), 0.02)]
for step in range(25):
    batch = torch.randn(32, 5)
    losses = [update(batch) for update in updates]
print(" ".join(f"{v:.4f}" for v in losses))
