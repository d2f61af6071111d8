"""Config-driven loop: two branches for backward, only one divides."""
import torch
from torch import nn

CONFIG = {"amp": False, "grad_accum": 3, "lr": 0.02, "epochs": 2, "batches": 6}


def train(config):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    scaler = torch.amp.GradScaler("cpu", enabled=config["amp"])
    accum = config["grad_accum"]
    for epoch in range(config["epochs"]):
        for i in range(config["batches"]):
            x = torch.randn(8, 4)
            y = (x.sum(1) > 0).long()
            if config["amp"]:
                with torch.autocast("cpu", dtype=torch.float16):
                    loss = nn.functional.cross_entropy(model(x), y)
                scaler.scale(loss / accum).backward()
            else:
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
            if (i + 1) % accum == 0:
                if config["amp"]:
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    optimizer.step()
                optimizer.zero_grad()
        print(epoch, f"{loss.item():.4f}")


train(CONFIG)
