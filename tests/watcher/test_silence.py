"""Correct loops that look odd: nothing may be reported. A false alarm costs more than a miss."""

from pathlib import Path

import pytest

from tests.watcher.loops import run

SHARED_TRUNK = """
trunk, one, two = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)
opt_one = torch.optim.SGD([*trunk.parameters(), *one.parameters()], lr=0.1)
opt_two = torch.optim.SGD([*trunk.parameters(), *two.parameters()], lr=0.1)
for x in torch.randn(6, 8, 4):
    opt_one.zero_grad()
    opt_two.zero_grad()
    h = trunk(x)
    loss = one(h).square().mean() + two(h).square().mean()
    loss.backward()
    opt_one.step()
    opt_two.step()
"""

WRAPPER = """
class Wrapper(torch.optim.Optimizer):
    def __init__(self, params, base):
        super().__init__(params, {})
        self.base = base

    def step(self, closure=None):
        self.base.step()

model = nn.Linear(4, 1)
base = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = Wrapper(model.parameters(), base)
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""

SAM = """
class SAM(torch.optim.Optimizer):
    def __init__(self, params, rho=0.05):
        super().__init__(params, dict(rho=rho))
        self.base = torch.optim.SGD(self.param_groups, lr=0.1)

    @torch.no_grad()
    def first_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad * group["rho"])
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old"]
        self.base.step()
        self.zero_grad()

    def step(self, closure=None):
        raise NotImplementedError

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = SAM(model.parameters())
for x in torch.randn(20, 8, 4):
    model(x).square().mean().backward()
    optimizer.first_step()
    model(x).square().mean().backward()
    optimizer.second_step()
"""

SAM_BY_DATA = """
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(20, 8, 4):
    model(x).square().mean().backward()
    old = [p.data.clone() for p in model.parameters()]
    for p in model.parameters():
        p.data.add_(0.05 * p.grad)
    optimizer.zero_grad()
    model(x).square().mean().backward()
    for p, was in zip(model.parameters(), old):
        p.data.copy_(was)
    optimizer.step()
    optimizer.zero_grad()
"""

FINITE_GUARD = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(12, 8, 4)):
    optimizer.zero_grad()
    scale = float("inf") if i % 2 == 0 else 1.0
    (model(x).square().mean() * scale).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if torch.isfinite(norm):
        optimizer.step()
"""

LOSS_GUARD = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(12, 8, 4)):
    loss = model(x).square().mean()
    if i in (3, 7):
        loss = loss * float("nan")
    optimizer.zero_grad()
    loss.backward()
    if torch.isnan(loss):
        optimizer.zero_grad()
        continue
    optimizer.step()
"""

FISHER = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(40, 8, 4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
fisher = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
for x in torch.randn(10, 8, 4):
    model.zero_grad()
    model(x).square().mean().backward()
    for n, p in model.named_parameters():
        fisher[n] += p.grad.detach() ** 2 / 10
model.zero_grad()
for x in torch.randn(6, 8, 4):
    optimizer.zero_grad()
    penalty = sum((f * p.square()).sum() for f, p in zip(fisher.values(), model.parameters()))
    (model(x).square().mean() + penalty).backward()
    optimizer.step()
"""

PCGRAD = """
model = nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for x in torch.randn(20, 8, 4):
    out = model(x)
    grads = []
    for task in range(2):
        optimizer.zero_grad()
        out[:, task].square().mean().backward(retain_graph=True)
        grads.append([p.grad.clone() for p in model.parameters()])
    merged = []
    for a, b in zip(*grads):
        dot = (a * b).sum()
        merged.append(a + b if dot > 0 else a + b - dot * b / b.square().sum().clamp_min(1e-9))
    for p, g in zip(model.parameters(), merged):
        p.grad = g
    optimizer.step()
"""

INACTIVE_HEADS = """
trunk = nn.Linear(4, 4)
heads = nn.ModuleList(nn.Linear(4, 1) for _ in range(3))
opts = [torch.optim.SGD(h.parameters(), lr=0.1) for h in heads]
main = torch.optim.SGD(trunk.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(30, 8, 4)):
    main.zero_grad()
    for opt in opts:
        opt.zero_grad()
    heads[i % 2 if i < 20 else 2](trunk(x)).square().mean().backward()
    main.step()
    for opt in opts:
        opt.step()
"""

IN_BACKWARD = """
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizers = {p: torch.optim.Adam([p], lr=0.01) for p in model.parameters()}

def hook(p):
    optimizers[p].step()
    optimizers[p].zero_grad()

for p in model.parameters():
    p.register_post_accumulate_grad_hook(hook)
for x in torch.randn(20, 8, 4):
    model(x).square().mean().backward()
"""

BICYCLE = """
G, E = nn.Linear(4, 4), nn.Linear(4, 4)
opt_E = torch.optim.Adam(E.parameters(), lr=0.01)
opt_G = torch.optim.Adam(G.parameters(), lr=0.01)
for x in torch.randn(20, 8, 4):
    opt_E.zero_grad()
    opt_G.zero_grad()
    z = E(x)
    loss_GE = (G(z) - x).square().mean()
    loss_GE.backward(retain_graph=True)
    opt_E.step()
    loss_latent = (E(G(z.detach())) - z.detach()).abs().mean()
    loss_latent.backward()
    opt_G.step()
"""

STYLE_TRANSFER = """
vgg = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))
image = torch.randn(1, 1, 12, 12, requires_grad=True)
target = vgg(torch.randn(1, 1, 12, 12)).detach()
optimizer = torch.optim.Adam([image], lr=0.05)
for _ in range(20):
    optimizer.zero_grad()
    F.mse_loss(vgg(image), target).backward()
    optimizer.step()
"""

STYLE_LBFGS = """
vgg = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3)).eval()
image = torch.randn(1, 1, 12, 12, requires_grad=True)
target = vgg(torch.randn(1, 1, 12, 12)).detach()
optimizer = torch.optim.LBFGS([image])
for _ in range(4):
    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(vgg(image), target)
        loss.backward()
        return loss
    optimizer.step(closure)
"""

TEXTUAL_INVERSION = """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 4)
        self.body = nn.Linear(4, 4)

    def forward(self, ids):
        return self.body(self.words(ids).mean(1))

encoder, unet = Encoder(), nn.Linear(4, 4)
optimizer = torch.optim.AdamW(encoder.words.parameters(), lr=0.01)
for _ in range(20):
    ids = torch.randint(10, (8, 3))
    loss = (unet(encoder(ids)) - 1).square().mean()
    loss.backward()
    grads = encoder.words.weight.grad
    keep = torch.arange(10) != 3
    grads.data[keep, :] = 0
    optimizer.step()
    optimizer.zero_grad()
"""

PERCEPTUAL = """
net = nn.Conv2d(1, 1, 3, padding=1)
vgg = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3)).eval()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for x in torch.randn(20, 2, 1, 8, 8):
    optimizer.zero_grad()
    F.l1_loss(vgg(net(x)), vgg(x).detach()).backward()
    optimizer.step()
"""

PER_TASK = """
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(20, 8, 4):
    optimizer.zero_grad()
    for task in range(3):
        model(x)[:, task].square().mean().backward()
    optimizer.step()
"""

TBPTT = """
from torch.utils.data import DataLoader

cell, head = nn.RNNCell(2, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
for seq in DataLoader(torch.randn(40, 12, 2), batch_size=4):
    h = torch.zeros(4, 4)
    optimizer.zero_grad()
    for chunk in seq.split(3, dim=1):
        loss = 0
        for t in range(chunk.shape[1]):
            h = cell(chunk[:, t], h)
            loss = loss + head(h).square().mean()
        loss.backward()
        h = h.detach()
    optimizer.step()
"""

TBPTT_STEPS = """
cell, head = nn.RNNCell(2, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
h = torch.zeros(4, 4)
for t, x in enumerate(torch.randn(60, 4, 2)):
    h = cell(x, h)
    loss = head(h).square().mean()
    if (t + 1) % 5 == 0:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        h = h.detach()
"""

SMALLER_LAST = """
from torch.utils.data import DataLoader

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [(x, int(i % 3)) for i, x in enumerate(torch.randn(44, 4))]
for epoch in range(3):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(DataLoader(data, batch_size=8)):
        (F.cross_entropy(model(x), y) / 2).backward()
        if (i + 1) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""

CONSTRUCTOR_TICKS = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
warm = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=4)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=16)
scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, cosine], milestones=[4])
for x in torch.randn(20, 8, 4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    scheduler.step()
"""

PLATEAU = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
for epoch in range(5):
    for i, x in enumerate(torch.randn(8, 8, 4)):
        (model(x).square().mean() / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
        scheduler.step(1.0)
"""

INFINITE_CLIP = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(20, 8, 4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    norm = nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
"""

FIRST_ORDER_MAML = """
import copy

model = nn.Linear(4, 1)
meta = torch.optim.Adam(model.parameters(), lr=0.01)
for x in torch.randn(12, 8, 4):
    meta.zero_grad()
    start = copy.deepcopy(model.state_dict())
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        inner.zero_grad()
        model(x).square().mean().backward()
        inner.step()
    inner.zero_grad()
    model(x + 1).square().mean().backward()
    model.load_state_dict(start)
    meta.step()
"""

MAML_CLONES = """
import copy

model = nn.Linear(4, 1)
meta = torch.optim.Adam(model.parameters(), lr=0.01)
for x in torch.randn(12, 8, 4):
    learner = copy.deepcopy(model)
    inner = torch.optim.Adam(learner.parameters(), lr=0.1)
    for _ in range(3):
        inner.zero_grad()
        learner(x).square().mean().backward()
        inner.step()
    learner.zero_grad()
    learner(x + 1).square().mean().backward()
    for p, q in zip(model.parameters(), learner.parameters()):
        p.grad = q.grad.clone()
    meta.step()
    meta.zero_grad()
"""

K_FOLD = """
for fold in range(4):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(2):
        for x in torch.randn(3, 8, 4):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
"""

MANUAL_SGD = """
model = nn.Linear(4, 1)
for x in torch.randn(20, 8, 4):
    model.zero_grad()
    model(x).square().mean().backward()
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-0.1)
"""

MANUAL_TENSORS = """
w = torch.randn(4, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
for x in torch.randn(20, 8, 4):
    (x @ w + b).square().mean().backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        b -= 0.1 * b.grad
        w.grad.zero_()
        b.grad.zero_()
"""

ZERO_BY_DATA = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(30, 8, 4):
    model(x).square().mean().backward()
    optimizer.step()
    for p in model.parameters():
        p.grad.data.zero_()
"""

ZERO_TO_NONE = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(30, 8, 4):
    for p in model.parameters():
        p.grad = None
    model(x).square().mean().backward()
    optimizer.step()
"""

ZERO_FOREACH = """
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1, foreach=True)
for x in torch.randn(30, 8, 4):
    model(x).square().mean().backward()
    optimizer.step()
    torch._foreach_zero_([p.grad for p in model.parameters()])
"""

SALIENCY = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(30, 8, 4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
for x in torch.randn(5, 8, 4):
    model.zero_grad()
    x.requires_grad_()
    model(x).sum().backward()
    x.grad.abs().mean()
"""

ADVERSARIAL = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(30, 8, 4):
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(3):
        model((x + delta)).square().mean().backward()
        delta.data = (delta + 0.1 * delta.grad.sign()).clamp(-0.3, 0.3)
        delta.grad.zero_()
    optimizer.zero_grad()
    model(x + delta.detach()).square().mean().backward()
    optimizer.step()
"""

FREE_ADVERSARIAL = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
delta = torch.zeros(8, 4, requires_grad=True)
for x in torch.randn(30, 8, 4):
    for _ in range(3):
        loss = model(x + delta).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        delta.data += 0.1 * delta.grad.sign()
        delta.grad.zero_()
"""

WGAN = """
G, D = nn.Linear(2, 4), nn.Linear(4, 1)
opt_G = torch.optim.RMSprop(G.parameters(), lr=0.01)
opt_D = torch.optim.RMSprop(D.parameters(), lr=0.01)
for i, x in enumerate(torch.randn(30, 8, 4)):
    opt_D.zero_grad()
    fake = G(torch.randn(8, 2))
    (D(fake.detach()).mean() - D(x).mean()).backward()
    opt_D.step()
    for p in D.parameters():
        p.data.clamp_(-0.1, 0.1)
    opt_G.zero_grad()
    if i % 5 == 0:
        (-D(G(torch.randn(8, 2))).mean()).backward()
        opt_G.step()
"""

DCGAN = """
G, D = nn.Linear(2, 4), nn.Linear(4, 1)
opt_G = torch.optim.Adam(G.parameters(), lr=0.01)
opt_D = torch.optim.Adam(D.parameters(), lr=0.01)
bce = nn.BCEWithLogitsLoss()
for x in torch.randn(20, 8, 4):
    D.zero_grad()
    bce(D(x), torch.ones(8, 1)).backward()
    fake = G(torch.randn(8, 2))
    bce(D(fake.detach()), torch.zeros(8, 1)).backward()
    opt_D.step()
    G.zero_grad()
    bce(D(fake), torch.ones(8, 1)).backward()
    opt_G.step()
"""

SCALER_WITHOUT_GRADIENTS = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for i, x in enumerate(torch.randn(20, 8, 4)):
    optimizer.zero_grad()
    if i % 5:
        scaler.scale(model(x).square().mean()).backward()
    try:
        scaler.step(optimizer)
        scaler.update()
    except AssertionError:  # no inf checks were recorded: there was nothing to step
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
"""

GAN_ONE_SCALER = """
G, D = nn.Linear(2, 4), nn.Linear(4, 1)
opt_G = torch.optim.SGD(G.parameters(), lr=0.01)
opt_D = torch.optim.SGD(D.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for x in torch.randn(20, 8, 4):
    opt_D.zero_grad()
    loss_D = D(x).square().mean() + D(G(torch.randn(8, 2)).detach()).mean()
    scaler.scale(loss_D).backward()
    scaler.step(opt_D)
    opt_G.zero_grad()
    scaler.scale(-D(G(torch.randn(8, 2))).mean()).backward()
    scaler.step(opt_G)
    scaler.update()
"""

SCALER_SKIPS = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for i, x in enumerate(torch.randn(20, 8, 4)):
    optimizer.zero_grad()
    loss = model(x).square().mean() * (float("inf") if i % 3 == 0 else 1.0)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""

SCALER_OFF = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", enabled=False)
for x in torch.randn(20, 8, 4):
    optimizer.zero_grad()
    scaler.scale(model(x).square().mean()).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""

FUSED_SCALER = """
model = nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for i, x in enumerate(torch.randn(30, 8, 4)):
    loss = model(x).square().mean() * (float("inf") if i % 7 == 0 else 1.0)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""

RUNNING_COUNTER = """
from torch.utils.data import DataLoader

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(torch.randn(56, 4), batch_size=8)
count = 0
for epoch in range(6):
    for x in loader:
        (model(x).square().mean() / 3).backward()
        count += 1
        if count % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""

VALIDATION = """
from torch.utils.data import DataLoader

model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train = DataLoader(torch.randn(48, 4), batch_size=8)
val = DataLoader(torch.randn(20, 4), batch_size=8)
for epoch in range(4):
    model.train()
    for i, x in enumerate(train):
        (model(x).square().mean() / 2).backward()
        if (i + 1) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        for x in val:
            model(x).square().mean()
"""

FROZEN_THEN_THAWED = """
body, head = nn.Linear(4, 4), nn.Linear(4, 1)
for p in body.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
for i, x in enumerate(torch.randn(40, 8, 4)):
    if i == 20:
        for p in body.parameters():
            p.requires_grad_(True)
    optimizer.zero_grad()
    head(body(x)).square().mean().backward()
    optimizer.step()
"""

ADDED_GROUP = """
body, head = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for p in body.parameters():
    p.requires_grad_(False)
for i, x in enumerate(torch.randn(40, 8, 4)):
    if i == 20:
        for p in body.parameters():
            p.requires_grad_(True)
        optimizer.add_param_group({"params": body.parameters()})
    optimizer.zero_grad()
    head(body(x)).square().mean().backward()
    optimizer.step()
"""

SPARSE_AND_TIED = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 4, sparse=True)
        self.body = nn.Linear(4, 4)
        self.again = self.body

    def forward(self, ids):
        return self.again(self.body(self.words(ids).mean(1)))

model = Model()
sparse = torch.optim.SparseAdam(model.words.parameters())
dense = torch.optim.Adam(model.body.parameters())
for _ in range(20):
    sparse.zero_grad()
    dense.zero_grad()
    model(torch.randint(10, (8, 3))).square().mean().backward()
    sparse.step()
    dense.step()
"""

EMA = """
import copy

model = nn.Linear(4, 1)
ema = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(20, 8, 4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    with torch.no_grad():
        for p, q in zip(model.parameters(), ema.parameters()):
            q.mul_(0.9).add_(p, alpha=0.1)
"""

AUTOGRAD_GRAD = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(20, 8, 4):
    loss = model(x).square().mean()
    for p, g in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters()))):
        p.grad = g
    optimizer.step()
"""

GRADIENT_PENALTY = """
D = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(D.parameters(), lr=0.01)
for x in torch.randn(20, 8, 4):
    x.requires_grad_()
    score = D(x)
    (slope,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    optimizer.zero_grad()
    (score.mean() + slope.square().sum(1).mean()).backward()
    optimizer.step()
"""

NORMALISED_BY_HAND = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(40, 8, 4)):
    model(x).square().mean().backward()
    if (i + 1) % 4 == 0:
        for p in model.parameters():
            p.grad /= 4
        optimizer.step()
        optimizer.zero_grad()
"""

RL_EPISODES = """
policy = nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)

def finish(logps, rewards):
    loss = torch.stack([-l * r for l, r in zip(logps, rewards)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

for episode in range(15):
    logps, rewards = [], []
    for t in range(5):
        logits = policy(torch.randn(4))
        action = torch.distributions.Categorical(logits=logits)
        a = action.sample()
        logps.append(action.log_prob(a))
        rewards.append(float(a))
    finish(logps, rewards)
"""

TWO_RHYTHMS = """
fast, slow = nn.Linear(4, 4), nn.Linear(4, 1)
opt_fast = torch.optim.SGD(fast.parameters(), lr=0.1)
opt_slow = torch.optim.SGD(slow.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(40, 8, 4)):
    (slow(fast(x)).square().mean() / 4).backward()
    opt_fast.step()
    opt_fast.zero_grad()
    if (i + 1) % 4 == 0:
        opt_slow.step()
        opt_slow.zero_grad()
"""

LOOKAHEAD = """
import copy

model = nn.Linear(4, 1)
slow = copy.deepcopy(model.state_dict())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(30, 8, 4)):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    if (i + 1) % 5 == 0:
        slow = {k: v + 0.5 * (model.state_dict()[k] - v) for k, v in slow.items()}
        model.load_state_dict(slow)
"""

BEST_CHECKPOINT = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    for x in torch.randn(5, 8, 4):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "opt": optimizer.state_dict()}, "best.pt")
state = torch.load("best.pt")
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["opt"])
for x in torch.randn(5, 8, 4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""

LR_FINDER = """
model = nn.Linear(4, 1)
start = {k: v.clone() for k, v in model.state_dict().items()}
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for i, x in enumerate(torch.randn(20, 8, 4)):
    optimizer.param_groups[0]["lr"] = 1e-4 * 1.5**i
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
model.load_state_dict(start)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for x in torch.randn(20, 8, 4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""

WARM_UP_PASS = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.randn(8, 4)).sum().backward()
optimizer.zero_grad()
for x in torch.randn(20, 8, 4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""

ONE_SHOT = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.randn(8, 4)).sum().backward()
optimizer.step()
"""

HALF_SKIPPED = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(40, 8, 4)):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    if i % 9 == 4:
        continue
    optimizer.step()
"""

HELPERS = """
class Trainer:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
        self.opt = torch.optim.AdamW(self.net.parameters())
        self.every = 4

    def clear(self):
        self.opt.zero_grad(set_to_none=True)

    def update(self):
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.opt.step()
        self.clear()

    def feed(self, x, last):
        (self.net(x).square().mean() / self.every).backward()
        if last:
            self.update()

    def epoch(self, data):
        self.clear()
        for i, x in enumerate(data):
            self.feed(x, (i + 1) % self.every == 0)

trainer = Trainer()
for epoch in range(5):
    trainer.epoch(torch.randn(12, 8, 4))
"""

INNER_MICRO = """
def train(steps, micro):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        for m in range(micro):
            loss = model(torch.randn(8, 4)).square().mean()
            loss = loss / micro
            loss.backward()
        optimizer.step()

train(20, 4)
"""

CHECKPOINTED = """
from torch.utils.checkpoint import checkpoint

body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
head = nn.Linear(4, 1)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
for i, x in enumerate(torch.randn(30, 8, 4)):
    optimizer.zero_grad()
    x.requires_grad_()
    head(checkpoint(body, x, use_reentrant=i % 2 == 0)).square().mean().backward()
    optimizer.step()
"""

DISTILLATION = """
teacher, student = nn.Linear(4, 3), nn.Linear(4, 3)
optimizer = torch.optim.Adam(student.parameters(), lr=0.01)
for x in torch.randn(20, 8, 4):
    with torch.no_grad():
        soft = teacher(x).softmax(1)
    optimizer.zero_grad()
    F.kl_div(student(x).log_softmax(1), soft, reduction="batchmean").backward()
    optimizer.step()
"""

LOOPS = {
    name.lower(): value
    for name, value in list(globals().items())
    if name.isupper() and isinstance(value, str)
}


@pytest.mark.filterwarnings("ignore:Using backward", "ignore:None of the inputs")
@pytest.mark.parametrize("name", LOOPS)
def test_a_correct_loop_is_silent(name: str, tmp_path: Path) -> None:
    loop = run(tmp_path, LOOPS[name])

    assert loop.found == []


def test_batches_skipped_for_their_norm_are_no_loss(tmp_path: Path) -> None:
    """Early on most norms are too large: two of the first four steps may follow a skipped one."""
    code = """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x in torch.randn(400, 8, 4):
        model(x).square().mean().backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if norm < 1.2:
            optimizer.step()
        optimizer.zero_grad()
    """

    assert run(tmp_path, code).found == []
