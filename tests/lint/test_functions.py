"""Functions that are entered once and passed over later: only where nothing is lost by it."""

import pytest

from tests.lint.linting import told

ACTOR_CRITIC = """
import torch
from torch import nn

class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu = nn.Linear(3, 1)

    def draw(self, obs):
        out = self.mu(obs)
        return out, out

def both(a, b):
    return a, b

policy, critic = Policy(), nn.Linear(1, 1)
policy_optimizer = torch.optim.Adam(policy.parameters())
critic_optimizer = torch.optim.Adam(critic.parameters())
{before}
for _ in range(5):
    obs = torch.randn(4, 3)
    {first}
    critic_optimizer.zero_grad()
    critic(torch.randn(4, 1)).mean().backward()
    critic_optimizer.step()
    action, _ = {action}
    policy_optimizer.zero_grad()
    critic(action).mean().backward()
    policy_optimizer.step()
"""
FROZEN = """
policy.requires_grad_(False)
policy.draw(torch.randn(4, 3))
policy.requires_grad_(True)
"""


@pytest.mark.parametrize(
    ("before", "first", "action"),
    [
        pytest.param(
            "", "with torch.no_grad(): policy.draw(obs)", "policy.draw(obs)", id="no_grad"
        ),
        pytest.param(FROZEN, "", "policy.draw(obs)", id="a frozen module"),
        pytest.param("both(some, more)", "", "both(policy.mu(obs), obs)", id="unknown data"),
    ],
)
def test_a_function_that_first_gave_nothing_to_train_may_give_it_later(
    before: str, first: str, action: str
) -> None:
    code = ACTOR_CRITIC.format(before=before, first=first, action=action)

    assert told(code) == []
