"""What is done in place to parameters and to their gradients."""

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
other = nn.Linear(4, 1)
second = torch.optim.SGD(other.parameters(), lr=0.1)
for x in loader:
    second.zero_grad()
    other(x).mean().backward()
    second.step()
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
        p.grad.zero_()
        p.grad.mul_(2)
    optimizer.step()
"""

    assert "GK103" in told(code)
