"""A teacher learns the labels while a student learns from the teacher's soft targets."""
import torch
import torch.nn.functional as F
from torch import nn, optim


def classifier(width):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 3))


torch.manual_seed(19)
centres = torch.randn(3, 8) * 2
teacher, student = classifier(48), classifier(12)
optimizer_t = optim.Adam(teacher.parameters(), lr=5e-3)
optimizer_s = optim.Adam(student.parameters(), lr=5e-3)

for it in range(1, 31):
    y = torch.randint(3, (24,))
    x = centres[y] + torch.randn(24, 8)

    optimizer_t.zero_grad()
    t_logits = teacher(x)
    t_loss = F.cross_entropy(t_logits, y)
    t_loss.backward()
    optimizer_t.step()

    soft = F.softmax(t_logits.detach() / 2, dim=1)
    s_loss = F.kl_div(F.log_softmax(student(x) / 2, dim=1), soft, reduction="batchmean")
    s_loss.backward()
    optimizer_s.step()

    if it % 10 == 0:
        print(f"{it:3d} teacher {t_loss.item():.4f} student {s_loss.item():.4f}")
