"""A method calls the module's function of the same name, which zeroes by hand."""

import torch
from torch import nn


def zero_grad(parameters):
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.detach_()
            parameter.grad.zero_()


class Stepper:
    def __init__(self, model):
        self.parameters = list(model.parameters())
        self.optimizer = torch.optim.SGD(self.parameters, lr=0.1)

    def zero_grad(self):
        zero_grad(self.parameters)

    def step(self):
        self.optimizer.step()


def main():
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    stepper = Stepper(model)
    for _ in range(6):
        stepper.zero_grad()
        model(torch.randn(2, 4)).square().mean().backward()
        stepper.step()


if __name__ == "__main__":
    main()
