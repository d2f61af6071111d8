"""Two optimizers with losses of their own: right loops, and some with a leak between them."""

from pathlib import Path
from typing import Any

import pytest

from gradkeeper.lint import check_source
from gradkeeper.model import Severity
from gradkeeper.rules import ALL
from tests.watcher.loops import HEADER, run

GAN = """
G, D = nn.Linear(2, 4), nn.Linear(4, 1)
opt_g = torch.optim.Adam(G.parameters())
opt_d = torch.optim.Adam(D.parameters())
bce = nn.BCEWithLogitsLoss()
one, zero = torch.ones(8, 1), torch.zeros(8, 1)
"""
ACTOR_CRITIC = """
actor, critic = nn.Linear(4, 2), nn.Linear(6, 1)
actor_opt = torch.optim.Adam(actor.parameters())
critic_opt = torch.optim.Adam(critic.parameters())
"""
TRUNK = """
trunk, actor, critic = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 1)
actor_opt = torch.optim.SGD([*trunk.parameters(), *actor.parameters()], lr=0.1)
critic_opt = torch.optim.SGD(critic.parameters(), lr=0.1)
"""

RIGHT = {
    "dcgan": GAN
    + """
for real in torch.randn(6, 8, 4):
    opt_d.zero_grad()
    fake = G(torch.randn(8, 2))
    bce(D(real), one).backward()
    bce(D(fake.detach()), zero).backward()
    opt_d.step()
    opt_g.zero_grad()
    bce(D(fake), one).backward()
    opt_g.step()
""",
    "wgan, the generator at another rhythm": GAN
    + """
for i, real in enumerate(torch.randn(12, 8, 4)):
    opt_d.zero_grad()
    (D(G(torch.randn(8, 2)).detach()).mean() - D(real).mean()).backward()
    opt_d.step()
    if i % 3 == 2:
        opt_g.zero_grad()
        (-D(G(torch.randn(8, 2))).mean()).backward()
        opt_g.step()
""",
    "a shared trunk, trained by both losses": TRUNK
    + """
for x in torch.randn(6, 8, 4):
    actor_opt.zero_grad()
    features = trunk(x)
    critic(features).square().mean().backward(retain_graph=True)
    critic_opt.step()
    critic_opt.zero_grad()
    actor(features).square().mean().backward()
    actor_opt.step()
""",
    "a shared trunk, and both step at the end": TRUNK
    + """
for x in torch.randn(6, 8, 4):
    actor_opt.zero_grad()
    critic_opt.zero_grad()
    features = trunk(x)
    critic(features).square().mean().backward(retain_graph=True)
    actor(features).square().mean().backward()
    critic_opt.step()
    actor_opt.step()
""",
    "bicycle-gan": """
E, G = nn.Linear(4, 2), nn.Linear(2, 4)
opt_e = torch.optim.Adam(E.parameters())
opt_g = torch.optim.Adam(G.parameters())
for x in torch.randn(6, 8, 4):
    opt_e.zero_grad()
    opt_g.zero_grad()
    (G(E(x)) - x).square().mean().backward()
    E.requires_grad_(False)
    z = torch.randn(8, 2)
    (E(G(z)) - z).square().mean().backward()
    E.requires_grad_(True)
    opt_e.step()
    opt_g.step()
""",
    "bicycle-gan, the second loss reaches both": """
E, G = nn.Linear(4, 2), nn.Linear(2, 4)
opt_e = torch.optim.Adam(E.parameters())
opt_g = torch.optim.Adam(G.parameters())
for x in torch.randn(6, 8, 4):
    opt_e.zero_grad()
    opt_g.zero_grad()
    (G(E(x)) - x).square().mean().backward()
    opt_e.step()
    z = torch.randn(8, 2)
    (E(G(z)) - z).square().mean().backward()
    opt_g.step()
""",
    "sac with a loss for each": ACTOR_CRITIC
    + """
for x in torch.randn(6, 8, 4):
    action = actor(x)
    critic_opt.zero_grad()
    critic(torch.cat([x, action.detach()], 1)).square().mean().backward()
    critic_opt.step()
    actor_opt.zero_grad()
    (-critic(torch.cat([x, action], 1)).mean()).backward()
    actor_opt.step()
""",
    "one loss, two optimizers, two rhythms": ACTOR_CRITIC
    + """
for i, x in enumerate(torch.randn(6, 8, 4)):
    (critic(torch.cat([x, actor(x)], 1)).square().mean() / (1 + i % 2)).backward()
    actor_opt.step()
    actor_opt.zero_grad()
    if i % 2:
        critic_opt.step()
        critic_opt.zero_grad()
""",
}

WRONG = {
    "gan, the generator first": GAN
    + """
for real in torch.randn(6, 8, 4):
    opt_g.zero_grad()
    bce(D(G(torch.randn(8, 2))), one).backward()
    opt_g.step()
    (bce(D(real), one) + bce(D(G(torch.randn(8, 2)).detach()), zero)).backward()
    opt_d.step()  # <-
    opt_d.zero_grad()
""",
    "gan, all cleared at the top": GAN
    + """
for real in torch.randn(6, 8, 4):
    opt_g.zero_grad()
    opt_d.zero_grad()
    bce(D(G(torch.randn(8, 2))), one).backward()
    opt_g.step()
    (bce(D(real), one) + bce(D(G(torch.randn(8, 2)).detach()), zero)).backward()
    opt_d.step()  # <-
""",
    "wgan that clears after the step": GAN
    + """
for i, real in enumerate(torch.randn(12, 8, 4)):
    (D(G(torch.randn(8, 2)).detach()).mean() - D(real).mean()).backward()
    opt_d.step()  # <-
    opt_d.zero_grad()
    if i % 3 == 2:
        opt_g.zero_grad()
        (-D(G(torch.randn(8, 2))).mean()).backward()
        opt_g.step()
""",
    "actor-critic that clears after the step": ACTOR_CRITIC
    + """
for x in torch.randn(6, 8, 4):
    actor_opt.zero_grad()
    (-critic(torch.cat([x, actor(x)], 1)).mean()).backward()
    actor_opt.step()
    critic(torch.randn(8, 6)).square().mean().backward()
    critic_opt.step()  # <-
    critic_opt.zero_grad()
""",
}


def told_by_reading(code: str) -> list[str]:
    found = check_source(HEADER + code, "loop.py", ALL, fixes=False).findings
    return [f"{one.rule}:{one.site.line}" for one in found if one.severity != Severity.INFO]


def at_fault(code: str) -> list[str]:
    lines = (HEADER + code).splitlines()
    return [f"GK104:{number}" for number, line in enumerate(lines, 1) if "# <-" in line]


def weights(variables: dict[str, Any]) -> list[Any]:
    modules = [one for one in variables.values() if hasattr(one, "named_parameters")]
    return [parameter.detach() for one in modules for parameter in one.parameters()]


@pytest.mark.parametrize("name", RIGHT)
def test_losses_that_meet_on_purpose_are_silent(name: str, tmp_path: Path) -> None:
    assert run(tmp_path, RIGHT[name]).found == []
    assert told_by_reading(RIGHT[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_a_leak_is_named_at_the_step_that_applies_it(name: str, tmp_path: Path) -> None:
    assert run(tmp_path, WRONG[name]).found == at_fault(WRONG[name])
    assert told_by_reading(WRONG[name]) == at_fault(WRONG[name])


@pytest.mark.parametrize("name", WRONG)
def test_a_leak_changes_the_weights(name: str, tmp_path: Path) -> None:
    """As the clearing that is missing shows: with it the same script trains otherwise."""
    torch = pytest.importorskip("torch")
    lines = WRONG[name].splitlines()
    leak = next(number for number, line in enumerate(lines) if "# <-" in line)
    owner = lines[leak].split(".step")[0]
    mended = "\n".join([*lines[: leak - 1], f"{owner}.zero_grad()", *lines[leak - 1 :]])

    leaky = weights(run(tmp_path, WRONG[name]).variables)
    right = weights(run(tmp_path, mended).variables)

    assert run(tmp_path, mended).found == []
    assert not all(torch.equal(one, other) for one, other in zip(leaky, right, strict=True))


def test_a_gradient_penalty_is_no_attack_on_its_input(tmp_path: Path) -> None:
    """The penalty's input gets a `.grad` that nobody asked for: the network trains all the same."""
    loop = run(
        tmp_path,
        """
        critic, maker = nn.Linear(3, 1), nn.Linear(3, 3)
        critic_opt = torch.optim.SGD(critic.parameters(), lr=0.01)
        maker_opt = torch.optim.SGD(maker.parameters(), lr=0.01)
        for x in torch.randn(6, 2, 3):
            critic_opt.zero_grad()
            mixed = (x + maker(x)).detach().requires_grad_()
            (slope,) = torch.autograd.grad(critic(mixed).tanh().sum(), mixed, create_graph=True)
            (critic(x).mean() + slope.square().mean()).backward()
            maker_opt.zero_grad()
            critic(maker(x)).mean().backward()
            maker_opt.step()
        """,
    )

    assert loop.found == [f"GK107:{loop.line('slope.square')}"]
