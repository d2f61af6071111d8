"""More loops as people write them, terse: the right ones silent, the wrong ones named."""

from pathlib import Path

import pytest

from tests.watcher.loops import run

RIGHT = {
    "fn nested tail flush": """
def main():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    opt = torch.optim.Adam(model.parameters())
    data = [torch.randn(8, 4) for _ in range(10)]
    N = 4
    for epoch in range(3):
        opt.zero_grad()
        for i, x in enumerate(data):
            left = len(data) % N if i >= len(data) - len(data) % N else N
            (model(x).square().mean() / left).backward()
            if (i + 1) % N == 0 or i + 1 == len(data):
                opt.step()
                opt.zero_grad()


main()
""",
    "generator batches even": """
def batches(n):
    for _ in range(n):
        yield torch.randn(8, 4)


def train():
    model = nn.Linear(4, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(4):
        for k, x in enumerate(batches(6), start=1):
            loss = model(x).pow(2).mean() / 3
            loss.backward()
            if k % 3:
                continue
            opt.step()
            opt.zero_grad(set_to_none=False)


train()
""",
    "zero gated at top": """
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
N = 4
for i in range(24):
    if i % N == 0:
        opt.zero_grad()
    (model(torch.randn(8, 4)).square().mean() / N).backward()
    if (i + 1) % N == 0:
        opt.step()
""",
    "loader iter/next": """
from torch.utils.data import DataLoader, TensorDataset

ds = TensorDataset(torch.randn(40, 4))
dl = DataLoader(ds, batch_size=8, shuffle=True)


def cycle(d):
    while True:
        for b in d:
            yield b


model = nn.Linear(4, 1)
opt = torch.optim.AdamW(model.parameters())
it = cycle(dl)
for step in range(23):
    for micro in range(2):
        (x,) = next(it)
        (model(x).square().mean() / 2).backward()
    opt.step()
    opt.zero_grad()
""",
    "actor critic joint": """
class AC(nn.Module):
    def __init__(s):
        super().__init__()
        s.body = nn.Linear(4, 8)
        s.pi = nn.Linear(8, 2)
        s.v = nn.Linear(8, 1)

    def forward(s, x):
        h = torch.tanh(s.body(x))
        return s.pi(h), s.v(h)


net = AC()
opt = torch.optim.Adam(net.parameters())
for ep in range(20):
    logps, vals, rews = [], [], []
    for t in range(6):
        logits, v = net(torch.randn(4))
        d = torch.distributions.Categorical(logits=logits)
        a = d.sample()
        logps.append(d.log_prob(a))
        vals.append(v)
        rews.append(torch.rand(1))
    R = torch.cat(rews)
    V = torch.cat(vals)
    adv = (R - V).detach()
    loss = -(torch.stack(logps) * adv).mean() + F.smooth_l1_loss(V, R)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()
""",
    "ddpg correct": """
actor, critic = nn.Linear(2, 2), nn.Linear(4, 1)
ta, tc = nn.Linear(2, 2), nn.Linear(4, 1)
ao = torch.optim.Adam(actor.parameters())
co = torch.optim.Adam(critic.parameters())
for step in range(30):
    s = torch.randn(16, 2)
    a = actor(s).detach()
    with torch.no_grad():
        y = tc(torch.cat([s, ta(s)], 1))
    co.zero_grad()
    F.mse_loss(critic(torch.cat([s, a], 1)), y + 1).backward()
    co.step()
    ao.zero_grad()
    (-critic(torch.cat([s, actor(s)], 1)).mean()).backward()
    ao.step()
    for p, q in zip(critic.parameters(), tc.parameters()):
        q.data.mul_(0.99).add_(0.01 * p.data)
""",
    "gan freeze toggle clear after step": """
G, D = nn.Linear(2, 4), nn.Linear(4, 1)
og = torch.optim.Adam(G.parameters())
od = torch.optim.Adam(D.parameters())
for i in range(25):
    for p in D.parameters():
        p.requires_grad_(True)
    (D(torch.randn(8, 4)).mean() - D(G(torch.randn(8, 2)).detach()).mean()).backward()
    od.step()
    od.zero_grad()
    for p in D.parameters():
        p.requires_grad_(False)
    (-D(G(torch.randn(8, 2))).mean()).backward()
    og.step()
    og.zero_grad()
""",
    "multi param groups & no_grad bias": """
m = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
decay = [p for n, p in m.named_parameters() if p.dim() > 1]
nod = [p for n, p in m.named_parameters() if p.dim() <= 1]
opt = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": nod, "weight_decay": 0}], lr=1e-3
)
sch = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=30)
for i in range(30):
    opt.zero_grad(set_to_none=True)
    F.cross_entropy(
        m(torch.randn(16, 4)), torch.randint(3, (16,)), label_smoothing=0.1
    ).backward()
    opt.step()
    sch.step()
""",
    "random moe experts": """
ex = nn.ModuleList(nn.Linear(4, 4) for _ in range(6))
out = nn.Linear(4, 1)
opt = torch.optim.Adam([*ex.parameters(), *out.parameters()])
g = torch.Generator().manual_seed(1)
for i in range(40):
    opt.zero_grad()
    k = int(torch.randint(6, (1,), generator=g))
    out(ex[k](torch.randn(8, 4))).square().mean().backward()
    opt.step()
""",
    "oom guard skip batch": """
m = nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for i in range(30):
    try:
        loss = m(torch.randn(8, 4)).square().mean()
        if i % 10 == 5:
            raise RuntimeError("CUDA out of memory")
        opt.zero_grad()
        loss.backward()
        opt.step()
    except RuntimeError:
        opt.zero_grad()
        continue
""",
    "siamese two forwards": """
m = nn.Linear(4, 3)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for i in range(30):
    a, p, n = (m(torch.randn(8, 4)) for _ in range(3))
    l = F.triplet_margin_loss(a, p, n)
    opt.zero_grad()
    l.backward()
    opt.step()
""",
    "pretrain then finetune new opt": """
m = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))


def fit(params, n):
    opt = torch.optim.Adam(params, lr=0.01)
    for _ in range(n):
        opt.zero_grad()
        m(torch.randn(8, 4)).square().mean().backward()
        opt.step()


for p in m[0].parameters():
    p.requires_grad = False
fit(m[1].parameters(), 20)
for p in m[0].parameters():
    p.requires_grad = True
fit(m.parameters(), 20)
""",
    "eval loss in train loop with backward for grad norm": """
m = nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for i in range(30):
    opt.zero_grad()
    l = m(torch.randn(8, 4)).square().mean()
    l.backward()
    total = sum(p.grad.norm() ** 2 for p in m.parameters()) ** 0.5
    if total > 1:
        for p in m.parameters():
            p.grad.mul_(1 / total)
    opt.step()
""",
    "manual adam": """
w = torch.randn(4, 1, requires_grad=True)
mom = torch.zeros_like(w)
for i in range(30):
    l = (torch.randn(8, 4) @ w).square().mean()
    l.backward()
    with torch.no_grad():
        mom = 0.9 * mom + w.grad
        w -= 0.01 * mom
    w.grad = None
""",
    "manual none check": """
ps = [torch.randn(4, 8, requires_grad=True), torch.randn(8, 1, requires_grad=True)]
for i in range(30):
    for p in ps:
        if p.grad is not None:
            p.grad.zero_()
    (torch.relu(torch.randn(8, 4) @ ps[0]) @ ps[1]).square().mean().backward()
    with torch.no_grad():
        for p in ps:
            p -= 0.01 * p.grad
""",
    "swa + checkpoint each epoch + resume": """
import copy, os

m = nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
sch = torch.optim.lr_scheduler.StepLR(opt, 2)
swa = torch.optim.swa_utils.AveragedModel(m)


def save(e):
    torch.save(
        dict(epoch=e, model=m.state_dict(), opt=opt.state_dict(), sch=sch.state_dict()), "c.pt"
    )


for e in range(4):
    for x in torch.randn(5, 8, 4):
        opt.zero_grad()
        m(x).square().mean().backward()
        opt.step()
    sch.step()
    swa.update_parameters(m)
    save(e)
c = torch.load("c.pt")
m2 = nn.Linear(4, 1)
o2 = torch.optim.SGD(m2.parameters(), lr=0.1, momentum=0.9)
s2 = torch.optim.lr_scheduler.StepLR(o2, 2)
m2.load_state_dict(c["model"])
o2.load_state_dict(c["opt"])
s2.load_state_dict(c["sch"])
for e in range(c["epoch"] + 1, 6):
    for x in torch.randn(5, 8, 4):
        o2.zero_grad()
        m2(x).square().mean().backward()
        o2.step()
    s2.step()
""",
    "fast forward scheduler": """
m = nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
sch = torch.optim.lr_scheduler.StepLR(opt, 2)
for _ in range(5):
    sch.step()
for e in range(4):
    for x in torch.randn(5, 8, 4):
        opt.zero_grad()
        m(x).square().mean().backward()
        opt.step()
    sch.step()
""",
    "accum fp16 scaler clip": """
m = nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.01)
sc = torch.amp.GradScaler("cpu", init_scale=64.0)
N = 3
for i in range(30):
    with torch.autocast("cpu", dtype=torch.float16):
        out = m(torch.randn(8, 4))
    loss = out.float().square().mean() / N
    sc.scale(loss).backward()
    if (i + 1) % N == 0:
        sc.unscale_(opt)
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        sc.step(opt)
        sc.update()
        opt.zero_grad()
""",
    "lbfgs": """
m = nn.Linear(4, 1)
opt = torch.optim.LBFGS(m.parameters(), lr=0.5)
x = torch.randn(32, 4)
for i in range(6):

    def closure():
        opt.zero_grad()
        l = (m(x) - x.sum(1, keepdim=True)).square().mean()
        l.backward()
        return l

    opt.step(closure)
""",
    "sgd with closure each": """
m = nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for x in torch.randn(30, 8, 4):

    def closure():
        opt.zero_grad()
        l = m(x).square().mean()
        l.backward()
        return l

    opt.step(closure)
""",
    "alternating two datasets two losses": """
from torch.utils.data import DataLoader

m = nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
A = DataLoader(torch.randn(40, 4), batch_size=8)
B = DataLoader(torch.randn(40, 4), batch_size=8)
for e in range(4):
    for a, b in zip(A, B):
        opt.zero_grad()
        m(a).square().mean().backward()
        m(b).abs().mean().backward()
        opt.step()
""",
    "backward helper same line two losses": """
m = nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.1)


def back(l):
    l.backward()


for x in torch.randn(30, 8, 4):
    opt.zero_grad()
    for f in (torch.square, torch.abs):
        back(f(m(x)).mean())
    opt.step()
""",
    "meta reptile": """
import copy

m = nn.Linear(4, 1)
for it in range(10):
    old = copy.deepcopy(m.state_dict())
    opt = torch.optim.Adam(m.parameters(), lr=0.01)
    x = torch.randn(8, 4)
    for _ in range(3):
        opt.zero_grad()
        m(x).square().mean().backward()
        opt.step()
    new = m.state_dict()
    m.load_state_dict({k: old[k] + 0.1 * (new[k] - old[k]) for k in old})
""",
    "early stop in middle of window": """
m = nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(40, 8, 4)):
    opt.zero_grad()
    m(x).square().mean().backward()
    if i == 33:
        break
    opt.step()
""",
    "param clones / weight norm / spectral": """
m = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
s = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 1))
opt = torch.optim.Adam([*m.parameters(), *s.parameters()])
for x in torch.randn(30, 8, 4):
    opt.zero_grad()
    s(m(x)).square().mean().backward()
    opt.step()
""",
    "contrastive queue + ema teacher in train mode": """
import copy

q = nn.Linear(4, 4)
k = copy.deepcopy(q)
for p in k.parameters():
    p.requires_grad_(False)
opt = torch.optim.SGD(q.parameters(), lr=0.1)
for x in torch.randn(30, 8, 4):
    with torch.no_grad():
        for a, b in zip(q.parameters(), k.parameters()):
            b.copy_(0.9 * b + 0.1 * a)
        t = k(x)
    l = F.cross_entropy(q(x) @ t.T, torch.arange(8))
    opt.zero_grad()
    l.backward()
    opt.step()
""",
    "functional MAML, divided by tasks": """
from torch.func import functional_call

m = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
o = torch.optim.Adam(m.parameters(), 1e-3)
for it in range(20):
    o.zero_grad()
    for task in range(4):
        a = torch.rand(()) * 4
        xs, xq = torch.randn(5, 1), torch.randn(5, 1)
        p = dict(m.named_parameters())
        inner = F.mse_loss(functional_call(m, p, (xs,)), a * xs)
        g = torch.autograd.grad(inner, list(p.values()), create_graph=True)
        fast = {k: v - 0.1 * d for (k, v), d in zip(p.items(), g)}
        (F.mse_loss(functional_call(m, fast, (xq,)), a * xq) / 4).backward()
    o.step()
""",
    "a backward inside a function's backward": """
class Rematerialised(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, layer, *ps):
        ctx.layer = layer
        ctx.save_for_backward(x)
        with torch.no_grad():
            return layer(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_(True)
        with torch.enable_grad():
            y = ctx.layer(x)
        torch.autograd.backward(y, g)
        return (x.grad, None) + (None,) * (len(ctx.needs_input_grad) - 2)


a, b = nn.Linear(4, 8), nn.Linear(8, 1)
o = torch.optim.Adam([*a.parameters(), *b.parameters()])
for x in torch.randn(40, 8, 4):
    o.zero_grad()
    h = torch.tanh(a(x))
    Rematerialised.apply(h, b, *b.parameters()).square().mean().backward()
    o.step()
""",
    "gradients of parts from a cached one": """
enc = nn.Linear(4, 8)
o = torch.optim.AdamW(enc.parameters())
for big in torch.randn(20, 32, 4):
    o.zero_grad()
    chunks = big.chunk(4)
    with torch.no_grad():
        reps = torch.cat([enc(c) for c in chunks])
    reps = reps.requires_grad_()
    F.cross_entropy(reps @ reps.t(), torch.arange(32)).backward()
    for c, g in zip(chunks, reps.grad.chunk(4)):
        (enc(c) * g).sum().backward()
    o.step()
""",
    "each layer with an optimizer of its own": """
layers = nn.ModuleList([nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 8)])
opts = [torch.optim.Adam(l.parameters()) for l in layers]
for x in torch.randn(40, 8, 4):
    pos, neg = x, x.flip(0) + 1
    for l, o in zip(layers, opts):
        p, n = torch.relu(l(pos)), torch.relu(l(neg))
        loss = F.softplus(torch.cat([2 - p.pow(2).mean(1), n.pow(2).mean(1) - 2])).mean()
        o.zero_grad()
        loss.backward()
        o.step()
        pos, neg = p.detach(), n.detach()
""",
    "master weights by hand": """
m = nn.Linear(4, 1).to(torch.bfloat16)
master = [p.detach().float().clone().requires_grad_(True) for p in m.parameters()]
o = torch.optim.AdamW(master, lr=1e-3)
for x in torch.randn(30, 8, 4, dtype=torch.bfloat16):
    m.zero_grad()
    m(x).float().square().mean().backward()
    for p, q in zip(m.parameters(), master):
        q.grad = p.grad.float()
    o.step()
    with torch.no_grad():
        for p, q in zip(m.parameters(), master):
            p.copy_(q)
""",
    "Reptile through a meta-optimizer": """
import copy

m = nn.Linear(1, 1)
meta = torch.optim.Adam(m.parameters(), 1e-2)
for it in range(15):
    fast = copy.deepcopy(m)
    o = torch.optim.SGD(fast.parameters(), 0.02)
    for _ in range(5):
        x = torch.randn(8, 1)
        o.zero_grad()
        F.mse_loss(fast(x), 2 * x).backward()
        o.step()
    meta.zero_grad()
    for p, q in zip(m.parameters(), fast.parameters()):
        p.grad = p.data - q.data
    meta.step()
""",
    "SAC with three optimizers": """
import copy

actor, q1, q2 = nn.Linear(4, 2), nn.Linear(6, 1), nn.Linear(6, 1)
t1, t2 = copy.deepcopy(q1), copy.deepcopy(q2)
log_alpha = torch.zeros(1, requires_grad=True)
oa, oq, ot = (
    torch.optim.Adam(actor.parameters(), 1e-3),
    torch.optim.Adam([*q1.parameters(), *q2.parameters()], 1e-3),
    torch.optim.Adam([log_alpha], 1e-3),
)
for s in torch.randn(60, 16, 4):
    with torch.no_grad():
        an = torch.tanh(actor(s))
        y = torch.min(t1(torch.cat([s, an], 1)), t2(torch.cat([s, an], 1)))
    sa = torch.cat([s, torch.randn(16, 2)], 1)
    ql = F.mse_loss(q1(sa), y) + F.mse_loss(q2(sa), y)
    oq.zero_grad()
    ql.backward()
    oq.step()
    for p in [*q1.parameters(), *q2.parameters()]:
        p.requires_grad = False
    a = torch.tanh(actor(s))
    logp = -a.square().sum(1, keepdim=True)
    pl = (
        log_alpha.exp().detach() * logp
        - torch.min(q1(torch.cat([s, a], 1)), q2(torch.cat([s, a], 1)))
    ).mean()
    oa.zero_grad()
    pl.backward()
    oa.step()
    for p in [*q1.parameters(), *q2.parameters()]:
        p.requires_grad = True
    al = -(log_alpha * (logp + 2).detach()).mean()
    ot.zero_grad()
    al.backward()
    ot.step()
    with torch.no_grad():
        for q, t in ((q1, t1), (q2, t2)):
            for a_, b_ in zip(t.parameters(), q.parameters()):
                a_.lerp_(b_, 0.01)
""",
}

WRONG = {
    "fn epochs tail leak": (
        """
def main():
    m = nn.Linear(4, 1)
    opt = torch.optim.SGD(m.parameters(), lr=0.1)
    data = [torch.randn(8, 4) for _ in range(7)]
    for epoch in range(4):
        for i, x in enumerate(data):
            (m(x).square().mean() / 3).backward()
            if (i + 1) % 3 == 0:
                opt.step()
                opt.zero_grad()


main()
""",
        ["GK202", "GK203"],
    ),
    "tail dropped by zero at epoch": (
        """
from torch.utils.data import DataLoader

m = nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
dl = DataLoader(torch.randn(56, 4), batch_size=8)
for epoch in range(4):
    opt.zero_grad()
    for i, x in enumerate(dl):
        (m(x).square().mean() / 3).backward()
        if (i + 1) % 3 == 0:
            opt.step()
            opt.zero_grad()
""",
        ["GK203"],
    ),
    "0based window": (
        """
m = nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for i in range(21):
    (m(torch.randn(8, 4)).square().mean() / 4).backward()
    if i % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
        ["GK202"],
    ),
    "unnorm with loader in class": (
        """
from torch.utils.data import DataLoader


class T:
    def __init__(s):
        s.m = nn.Linear(4, 2)
        s.o = torch.optim.Adam(s.m.parameters())
        s.n = 0

    def step(s, x):
        F.cross_entropy(s.m(x), torch.randint(2, (len(x),))).backward()
        s.n += 1
        if s.n % 4 == 0:
            s.o.step()
            s.o.zero_grad()


t = T()
for e in range(3):
    for x in DataLoader(torch.randn(64, 4), batch_size=8):
        t.step(x)
""",
        ["GK201"],
    ),
    "sched per micro": (
        """
m = nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
sch = torch.optim.lr_scheduler.StepLR(opt, 5)
for i in range(24):
    (m(torch.randn(8, 4)).square().mean() / 4).backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
    sch.step()
""",
        ["GK205"],
    ),
    "sched before opt": (
        """
m = nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
sch = torch.optim.lr_scheduler.StepLR(opt, 5)
for i in range(24):
    opt.zero_grad()
    m(torch.randn(8, 4)).square().mean().backward()
    sch.step()
    opt.step()
""",
        ["GK205"],
    ),
    "gan wrong order": (
        """
G, D = nn.Linear(2, 4), nn.Linear(4, 1)
og = torch.optim.Adam(G.parameters())
od = torch.optim.Adam(D.parameters())
for i in range(25):
    (D(torch.randn(8, 4)).mean() - D(G(torch.randn(8, 2)).detach()).mean()).backward()
    od.step()
    od.zero_grad()
    (-D(G(torch.randn(8, 2))).mean()).backward()
    og.step()
    og.zero_grad()
""",
        ["GK104"],
    ),
    "clip each micro": (
        """
m = nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.01)
for i in range(24):
    (m(torch.randn(8, 4)).square().mean() / 4).backward()
    nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
        ["GK304"],
    ),
    "orphan head in fn": (
        """
def main():
    body, head = nn.Linear(4, 4), nn.Linear(4, 1)
    opt = torch.optim.SGD(body.parameters(), lr=0.1)
    for x in torch.randn(20, 8, 4):
        opt.zero_grad()
        head(torch.relu(body(x))).square().mean().backward()
        opt.step()


main()
""",
        ["GK105"],
    ),
    "opt in loop fn": (
        """
m = nn.Linear(4, 1)


def step(x):
    opt = torch.optim.Adam(m.parameters(), lr=0.01)
    opt.zero_grad()
    m(x).square().mean().backward()
    opt.step()


for x in torch.randn(20, 8, 4):
    step(x)
""",
        ["GK604"],
    ),
    "never stepped": (
        """
m = nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for x in torch.randn(20, 8, 4):
    opt.zero_grad()
    m(x).square().mean().backward()
""",
        ["GK107"],
    ),
    "load from disk between": (
        """
m = nn.Linear(4, 1)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
torch.save(m.state_dict(), "a.pt")
for i, x in enumerate(torch.randn(6, 8, 4)):
    m(x).square().mean().backward()
    if i == 3:
        m.load_state_dict(torch.load("a.pt"))
    opt.step()
    opt.zero_grad()
""",
        ["GK403"],
    ),
    "mean of means": (
        """
m = nn.Linear(4, 3)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
g = torch.Generator().manual_seed(0)
for i in range(16):
    y = torch.randint(3, (12,), generator=g)
    y[: int(torch.randint(1, 11, (1,), generator=g))] = -100
    (F.cross_entropy(m(torch.randn(12, 4)), y) / 4).backward()
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
""",
        ["GK204"],
    ),
    "functional MAML, not divided": (
        """
from torch.func import functional_call

m = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
o = torch.optim.Adam(m.parameters(), 1e-3)
for it in range(20):
    o.zero_grad()
    for task in range(4):
        a = torch.rand(()) * 4
        xs, xq = torch.randn(5, 1), torch.randn(5, 1)
        p = dict(m.named_parameters())
        inner = F.mse_loss(functional_call(m, p, (xs,)), a * xs)
        g = torch.autograd.grad(inner, list(p.values()), create_graph=True)
        fast = {k: v - 0.1 * d for (k, v), d in zip(p.items(), g)}
        F.mse_loss(functional_call(m, fast, (xq,)), a * xq).backward()
    o.step()
""",
        ["GK201"],
    ),
    "a backward inside a function's backward, never zeroed": (
        """
class Rematerialised(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, layer):
        ctx.layer = layer
        ctx.save_for_backward(x)
        with torch.no_grad():
            return layer(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_(True)
        with torch.enable_grad():
            y = ctx.layer(x)
        torch.autograd.backward(y, g)
        return x.grad, None


a, b = nn.Linear(4, 8), nn.Linear(8, 1)
o = torch.optim.Adam([*a.parameters(), *b.parameters()])
for x in torch.randn(40, 8, 4):
    h = torch.tanh(a(x))
    Rematerialised.apply(h, b).square().mean().backward()
    o.step()
""",
        ["GK101"],
    ),
    "LoRA added in mid-run": (
        """
class LoRA(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base, self.a, self.b = (
            base,
            nn.Parameter(torch.randn(2, base.in_features) * 0.1),
            nn.Parameter(torch.zeros(base.out_features, 2)),
        )

    def forward(self, x):
        return self.base(x) + x @ self.a.t() @ self.b.t()


net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
opt = torch.optim.AdamW(net.parameters(), 1e-3)


def epoch():
    for x in torch.randn(30, 8, 4):
        F.cross_entropy(net(x), torch.randint(0, 3, (8,))).backward()
        opt.step()
        opt.zero_grad()


epoch()
net[2] = LoRA(net[2])
epoch()
""",
        ["GK105"],
    ),
    "SAC's policy loss reaches its temperature": (
        """
actor = nn.Linear(4, 2)
log_alpha = torch.zeros(1, requires_grad=True)
oa, ot = torch.optim.Adam(actor.parameters(), 1e-3), torch.optim.Adam([log_alpha], 1e-3)
for s in torch.randn(60, 16, 4):
    a = torch.tanh(actor(s))
    logp = -a.square().sum(1, keepdim=True)
    oa.zero_grad()
    (log_alpha.exp() * logp - a.sum(1, keepdim=True)).mean().backward()
    oa.step()
    al = -(log_alpha * (logp.detach() + 2)).mean()
    al.backward()
    ot.step()
    ot.zero_grad()
""",
        ["GK104", "GK101"],
    ),
    "LBFGS whose closure forgets to zero": (
        """
net = nn.Linear(4, 1)
opt = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=5)
X, Y = torch.randn(64, 4), torch.randn(64, 1)
for _ in range(15):

    def closure():
        loss = F.mse_loss(net(X), Y)
        loss.backward()
        return loss

    opt.step(closure)
""",
        ["GK101"],
    ),
    "two optimizers, one unscaled, clipped together": (
        """
a, b = nn.Linear(4, 4), nn.Linear(4, 1)
oa, ob = torch.optim.SGD(a.parameters(), lr=1e-3), torch.optim.SGD(b.parameters(), lr=1e-3)
sc = torch.amp.GradScaler("cpu")
for x in torch.randn(30, 8, 4):
    oa.zero_grad()
    ob.zero_grad()
    l = b(a(x)).square().mean()
    sc.scale(l).backward()
    sc.unscale_(oa)
    nn.utils.clip_grad_norm_([*a.parameters(), *b.parameters()], 1.0)
    sc.step(oa)
    sc.step(ob)
    sc.update()
""",
        ["GK301"],
    ),
}


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_loop_is_silent(name: str, tmp_path: Path) -> None:
    assert run(tmp_path, RIGHT[name]).found == []


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_loop_is_named(name: str, tmp_path: Path) -> None:
    code, rules = WRONG[name]

    found = {one.rule for one in run(tmp_path, code).watch.findings}

    assert found
    assert found <= set(rules)
