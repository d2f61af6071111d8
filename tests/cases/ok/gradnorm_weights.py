"""GradNorm-like balancing: task weights with an optimizer of their own."""
import torch
from torch import nn

torch.manual_seed(305)
body, heads = nn.Linear(5, 8), nn.ModuleList([nn.Linear(8, 1), nn.Linear(8, 1)])
weights = nn.Parameter(torch.ones(2))
opt = torch.optim.Adam([*body.parameters(), *heads.parameters()], lr=0.01)
opt_w = torch.optim.Adam([weights], lr=0.02)
initial = None

for step in range(25):
    x = torch.randn(32, 5)
    h = torch.tanh(body(x))
    targets = (x[:, :1], 10 * x[:, 1:2] * x[:, 2:3])
    losses = torch.stack([nn.functional.mse_loss(head(h), t) for head, t in zip(heads, targets)])
    if initial is None:
        initial = losses.detach()

    norms = torch.stack(
        [torch.autograd.grad(w * loss, body.weight, retain_graph=True, create_graph=True)[0].norm()
         for w, loss in zip(weights, losses)]
    )
    rate = losses.detach() / initial
    goal = (norms.mean() * rate / rate.mean()).detach()
    (weight_grad,) = torch.autograd.grad((norms - goal).abs().sum(), weights, retain_graph=True)

    opt.zero_grad()
    (weights.detach() * losses).sum().backward()
    opt.step()
    weights.grad = weight_grad
    opt_w.step()
    with torch.no_grad():
        weights.mul_(2 / weights.sum())
print([round(w, 3) for w in weights.tolist()])
