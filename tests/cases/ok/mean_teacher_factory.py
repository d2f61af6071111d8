"""Student and teacher come from one factory; the teacher follows by a moving average."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="Linear")
args = parser.parse_args([])


def create_model(ema=False):
    model = getattr(nn, args.model)(4, 1)
    if ema:
        for parameter in model.parameters():
            parameter.detach_()
    return model


def main():
    torch.manual_seed(0)
    student = create_model()
    teacher = create_model(ema=True)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for _ in range(6):
        inputs = torch.randn(2, 4)
        loss = (student(inputs) - teacher(inputs)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for old, new in zip(teacher.parameters(), student.parameters()):
            old.data.mul_(0.9).add_(new.data, alpha=0.1)


if __name__ == "__main__":
    main()
