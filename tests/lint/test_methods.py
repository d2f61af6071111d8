"""What is done in place to parameters and to their gradients."""

import pytest

from tests.lint.linting import HEAD, told

BY_HAND = """
for x in loader:
    model(x).mean().backward()
    for p in model.parameters():
        p.data{update}
        {after}
"""


def by_hand(update: str, after: str = "p.grad.zero_()") -> list[str]:
    return told(HEAD.rpartition("optimizer =")[0] + BY_HAND.format(update=update, after=after))


def test_a_chain_of_in_place_calls_applies_the_gradient_once() -> None:
    assert by_hand(".add_(p.grad, alpha=-0.1).add_(torch.randn_like(p))") == []
    assert by_hand(".mul_(0.9).add_(p.grad, alpha=-0.1)") == []
    assert "GK101" in by_hand(".add_(p.grad, alpha=-0.1)", after="pass")


@pytest.mark.parametrize(
    "update",
    [
        "p[0] -= 0.1 * p.grad[0]",
        "p[:] = p - 0.1 * p.grad",
        "p.data[0].sub_(0.1 * p.grad[0])",
        "p.ds_tensor[:1] -= 0.1 * p.grad[:1]",
    ],
)
def test_a_part_of_a_parameter_is_moved_by_a_part_of_its_gradient(update: str) -> None:
    code = f"""{HEAD}
for x in loader:
    optimizer.zero_grad()
    model(x).mean().backward()
    with torch.no_grad():
        for p in model.parameters():
            {update}
"""
    assert told(code) == []
    assert told(code.replace(update, "p.note[0] = 1")) == ["GK107"]


SHARDS = """\
import torch
from torch.optim import Optimizer


class Scaler:
    def __init__(self):
        self.overflow = False
        self.loss_scale = 2.0 ** 16

    def finds_overflow_in(self, x):
        total = float(x.float().sum())
        if total in [float("inf"), -float("inf")] or total != total:
            return True
        return False


class Fused(Optimizer):
    def __init__(self, model, lr):
        self.model = model
        self.lr = lr
        p0 = list(self.model.parameters())[0]
        if p0.dtype == torch.float16:
            self.scaler = Scaler()
        else:
            self.scaler = None
        super().__init__(model.parameters(), dict(lr=lr))

    def update(self, x):
        with torch.no_grad():
            for n, p in self.model.named_parameters():
                if p.grad is not None:
                    if self.scaler:
                        if self.scaler.overflow or self.scaler.finds_overflow_in(p.grad):
                            p.grad = None
                            self.scaler.overflow = True
                            break
                    grad_fp32 = p.grad.to(torch.float32)
                    p.grad = None
                    p_fp32 = p.ds_tensor.to(torch.float32)
                    p_fp32.add_(grad_fp32, alpha=-self.lr)
                    {write}
        return x

    def fused_backward(self, loss, lr):
        self.lr = lr
        loss.backward()
        self.update(0)


model = torch.nn.Linear(4, 1)
optimizer = Fused(model, 0.1)
for x in torch.randn(6, 8, 4):
    optimizer.fused_backward(model(x).square().mean(), 0.1)
"""


def test_what_a_framework_keeps_at_a_parameter_may_be_its_weights() -> None:
    assert told(SHARDS.format(write="p.ds_tensor[:5] = p_fp32")) == []
    assert told(SHARDS.format(write="p.note[:5] = 0")) == ["GK107"]


def test_what_is_added_to_zeroed_gradients_is_a_gradient() -> None:
    for fill in (".data.add_(p - q)", ".copy_(p - q)", " += p - q"):
        code = f"""{HEAD}
other = nn.Linear(4, 1)
for p in model.parameters():
    p.grad = torch.zeros_like(p)
for _ in range(5):
    for p, q in zip(model.parameters(), other.parameters()):
        p.grad.zero_()
        p.grad{fill}
    optimizer.step()
"""

        assert told(code) == []


def test_zeroed_gradients_that_are_only_scaled_stay_empty() -> None:
    code = f"""{HEAD}
model.zero_grad(set_to_none=False)
other = nn.Linear(4, 1)
second = torch.optim.SGD(other.parameters(), lr=0.1)
for x in loader:
    second.zero_grad()
    other(x).mean().backward()
    second.step()
    for p in model.parameters():
        p.grad{{change}}
    optimizer.step()
"""

    assert "GK103" in told(code.format(change=".mul_(2)"))
    assert "GK103" not in told(code.format(change=".add_(p.data)"))
