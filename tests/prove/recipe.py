"""A training script that saves all it needs, as text; words in its arguments leave things out."""

RECIPE = """
import os, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

words = sys.argv[1:]
PATH = "state.pt"

torch.manual_seed(int.from_bytes(os.urandom(4)) if "unseeded" in words else 0)
data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
shuffle = torch.Generator().manual_seed(1)
began, epoch, done = shuffle.get_state(), 0, 0

if os.path.exists(PATH) and "never" not in words:
    if "fails" in words:
        sys.exit("cannot read the checkpoint")
    saved = torch.load(PATH)
    model.load_state_dict(saved["model"])
    epoch = saved["epoch"]
    if "no-optimizer" not in words:
        optimizer.load_state_dict(saved["optimizer"])
    if "no-position" not in words:
        began, done = saved["began"], saved["done"]
    if "no-generator" not in words:
        torch.set_rng_state(saved["generator"])
    if "no-gradients" not in words:
        for parameter, gradient in zip(model.parameters(), saved["gradients"]):
            parameter.grad = gradient


def save():
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
        "done": place + 1,
        "began": began,
        "generator": torch.get_rng_state(),
        "gradients": [parameter.grad for parameter in model.parameters()],
    }
    torch.save(state, PATH + ".new")
    os.replace(PATH + ".new", PATH)


while epoch < 2:
    shuffle.set_state(began)
    order = torch.randperm(32, generator=shuffle).split(4)
    generator = torch.get_rng_state()
    loader = iter(DataLoader(data, batch_sampler=[rows.tolist() for rows in order]))
    torch.set_rng_state(generator)  # a loader's iterator draws a seed from it
    for place, (x, y) in enumerate(loader):
        if place < done:
            continue
        (nn.functional.mse_loss(model(x), y) / 2).backward()
        if place % 2:
            optimizer.step()
            optimizer.zero_grad()
        if place % 4 == (0 if "mid-window" in words else 1):
            save()
    began, done = shuffle.get_state(), 0
    epoch += 1
"""
