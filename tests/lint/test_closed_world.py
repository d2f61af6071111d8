"""What is not seen is neither true nor missing: correct code that was once accused."""

import pytest

from tests.lint.linting import HEAD, findings, told

LONG = """\
options = load()
for x in loader:
    if options.of_this_experiment.training_schedule.optimization_options.zero_before_each_batch:
        optimizer.zero_grad()
    model(x).mean().backward()
    if not options.of_this_experiment.training_schedule.optimization_options.skip_each_step:
        optimizer.step()
"""


def test_two_long_conditions_that_begin_alike_are_two() -> None:
    (finding,) = [one for one in findings(HEAD + LONG) if one.certain]

    assert finding.rule == "GK101"
    assert finding.when is not None
    assert finding.when.endswith("zero_before_each_batch is false")


def test_a_long_condition_and_its_negation_are_one() -> None:
    same = LONG.replace("zero_before_each_batch", "sane").replace("not options", "options")

    assert told(HEAD + same.replace("skip_each_step", "sane")) == []


@pytest.mark.parametrize(
    ("imported", "condition"),
    [
        ("from config import cfg", "not cfg.dry_run"),
        ("import config as cfg", "not cfg.dry_run"),
        ("from config import DRY_RUN", "not DRY_RUN"),
        ("from config import load; cfg = load()", "not cfg.dry_run"),
        ("from config import cfg", "cfg.train.enabled"),
    ],
)
def test_an_imported_name_is_not_known_to_be_true(imported: str, condition: str) -> None:
    code = f"""\
{imported}
for x in loader:
    optimizer.zero_grad()
    model(x).mean().backward()
    if {condition}:
        optimizer.step()
"""

    assert told(HEAD + code) == []


UNSEEN = {
    "a wrapper whose class is not seen": """
        from helpers import LossWrapper, make_model, loader
        model = make_model()
        wrapped = LossWrapper(model, nn.MSELoss())
        wrapped.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for x, y in loader:
            optimizer.zero_grad()
            loss = wrapped(x, y)
            loss.backward()
            optimizer.step()
        """,
    "a task that was given the model": """
        import zoo
        def test_overfit():
            model, _, _ = zoo.create_model_and_transforms("m")
            task = zoo.create_task(1, model=model)
            batch = {"image": torch.randn(2, 3, 8, 8)}
            task.train()
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
            for _ in range(80):
                optimizer.zero_grad()
                loss = task(batch)[0]["loss"]
                loss.backward()
                optimizer.step()
        """,
    "a trainer's model under another name": """
        from transformers import Trainer, AutoModel
        model = AutoModel.from_pretrained("bert")
        class Stepping(Trainer):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
            def training_step(self, model, inputs):
                loss = model(**inputs).loss
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                return loss.detach()
        trainer = Stepping(model=model, train_dataset=None)
        trainer.train()
        """,
    "a head that is thawed again": """
        from zoo import Backbone
        net = Backbone.from_pretrained("b0")
        net.head = nn.Linear(10, 100)
        optimizer = torch.optim.Adam(net.head.parameters(), lr=0.001)
        for name, p in net.named_parameters():
            if "bn" not in name:
                p.requires_grad = False
        for p in net.head.parameters():
            p.requires_grad = True
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        """,
    "parameters frozen by their names": """
        net = nn.Sequential(nn.Linear(4, 10), nn.BatchNorm1d(10))
        net.head = nn.Linear(10, 100)
        optimizer = torch.optim.Adam(net.head.parameters(), lr=0.001)
        for name, p in net.named_parameters():
            if "bn" not in name:
                p.requires_grad = False
        for p in net.head.parameters():
            p.requires_grad = True
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        """,
}


@pytest.mark.parametrize("name", UNSEEN)
def test_absence_is_not_concluded_from_what_is_out_of_sight(name: str) -> None:
    code = "        import torch\n        from torch import nn\n" + UNSEEN[name].strip("\n")

    assert told(code) == []


def test_what_is_in_sight_is_still_missed() -> None:
    code = """
    import torch
    from torch import nn
    net, other = nn.Linear(4, 4), nn.Linear(4, 4)
    optimizer = torch.optim.Adam(other.parameters(), lr=0.001)
    for x in loader:
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()
    """

    assert told(code) == ["GK103"]


def test_gradients_are_not_discarded_where_a_step_shows_that_a_loss_was_not_followed() -> None:
    code = """
    import torch
    from torch import nn

    critic, multiplier = nn.Linear(3, 1), nn.Linear(1, 1)
    critic_optimizer = torch.optim.Adam(critic.parameters())
    multiplier_optimizer = torch.optim.Adam(multiplier.parameters())
    multiplier = torch.load("a.pt")["multiplier"]
    for x, y in loader:
        q = critic(x)
        multiplier_optimizer.zero_grad()
        (multiplier(x) * (q - y)).mean().backward(retain_graph=True)
        multiplier_optimizer.step()
        critic_optimizer.zero_grad()
        (q - y).pow(2).mean().backward()
        critic_optimizer.step()
    """

    assert "GK102" not in told(code)
    assert "GK102" in told(code.replace("multiplier_optimizer.step()", "pass"))


def test_the_optimizer_that_steps_may_be_the_one_that_was_built() -> None:
    code = """
    import torch
    from torch import nn

    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters())

    def train(loader, {given}loss):
        for x, y in loader:
            optimizer.zero_grad()
            loss(model(x), y).backward()
            {step}
    """

    assert told(code.format(given="optimizer, ", step="optimizer.step()")) == []
    assert told(code.format(given="", step="pass")) == ["GK107"]


def test_gradients_may_be_put_in_place_where_there_were_none() -> None:
    code = """
    import torch
    from torch import nn

    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in torch.randn(6, 2, 4):
        optimizer.zero_grad()
        grads = torch.autograd.grad(net(x).square().mean(), net.parameters())
        for p, g in zip(net.parameters(), grads):
            if p.grad is None:
                p.grad = g
            else:
                p.grad {sign} g
        optimizer.step()
    """

    assert told(code.format(sign="+=")) == []
    # What is there may be scaled; what is not, is not made by that.
    scaled = code.replace("p.grad = g", "pass").format(sign="*=")
    assert told(scaled) == ["GK103"]


def test_code_that_is_not_seen_may_clear_a_network_that_it_is_given() -> None:
    code = """
    import torch
    from elsewhere import handle
    from torch import nn

    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        for x, y in loader:
            {each_round}
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        {each_epoch}
    """

    assert told(code.format(each_round="handle(model)", each_epoch="pass")) == []
    assert told(code.format(each_round="handle(model, x)", each_epoch="pass")) == []
    assert told(code.format(each_round="pass", each_epoch="handle(model)")) == ["GK101"]
    assert told(code.format(each_round="handle(x)", each_epoch="pass")) == ["GK101"]
    # To clear, it would need neither a rate nor a number of rounds.
    assert told(code.format(each_round="handle(model, 0.99)", each_epoch="pass")) == ["GK101"]
    assert told(code.format(each_round="handle(epoch, model)", each_epoch="pass")) == ["GK101"]


def test_what_is_put_around_an_optimizer_may_zero_as_it_steps() -> None:
    code = """
    import torch
    from elsewhere import Scheduled
    from torch import nn

    model = nn.Linear(4, 2)
    optimizer = {made}(torch.optim.SGD(model.parameters(), lr=0.1))
    {first}
    for x, y in loader:
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    """

    assert told(code.format(made="Scheduled", first="pass")) == []
    assert told(code.format(made="Scheduled", first="optimizer.zero_grad()")) == ["GK101"]
    assert told(code.format(made="", first="pass")) == ["GK101"]


def test_a_hook_may_weigh_the_gradients() -> None:
    code = """
    import torch
    from torch import nn

    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    for p in model.parameters():
        p.{hook}(weigh)
    for i, x in enumerate(torch.utils.data.DataLoader(data)):
        model(x).square().mean().backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    """

    assert "GK201" not in told(code.format(hook="register_hook"))
    assert "GK201" in told(code.format(hook="requires_grad_"))


def test_code_that_has_a_network_and_handles_gradients_may_weigh_them() -> None:
    code = """
    import torch
    from elsewhere import Attack
    from torch import nn

    model = nn.Linear(4, 1)
    attack = Attack({given})
    optimizer = torch.optim.Adam(model.parameters())
    for i, x in enumerate(torch.utils.data.DataLoader(data)):
        model(x).square().mean().backward()
        attack.restore_grad()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    """

    assert "GK201" not in told(code.format(given="model"))
    assert "GK201" in told(code.format(given="0.1"))


TWICE = """\
from helpers import build, loader

def baseline():
    model, optimizer = build()
    for x in loader:
        loss = model(x).mean()
        loss.backward()
        {clear}
        optimizer.step()
        {then}

def with_options():
    network, solver = build(fast=True)
    for x in loader:
        loss = network(x).mean()
        loss.backward()
        solver.step()
        solver.zero_grad()

baseline()
with_options()
"""


def test_optimizers_that_work_one_after_the_other_are_told_apart() -> None:
    wrong = TWICE.format(clear="optimizer.zero_grad()", then="pass")

    assert told(wrong) == ["GK102"]
    assert told(TWICE.format(clear="pass", then="optimizer.zero_grad()")) == []


def test_of_unseen_optimizers_that_take_turns_each_may_own_what_another_zeroes() -> None:
    code = """\
from helpers import build, loader

model, optimizer, solver = build()
for x in loader:
    loss = model(x).mean()
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    solver.step()
    solver.zero_grad()
"""

    assert told(code) == []


MANY_LAYERS = """\
import torch
from torch import nn

layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(9)])
optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
for step in range(100):
    x = torch.randn(8, 4)
    for place in range(9):
        x = layers[place](x).relu() * 2
    x.mean().backward()
    for p in layers.parameters():
        p.grad /= 8
    optimizer.step()
    layers.zero_grad(set_to_none=True)
"""


def test_what_the_rounds_of_a_loop_would_have_done_is_not_missing_where_they_cost_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gradkeeper.lint.interpreter.statements.QUIETLY_IN_ALL", 20)

    assert told(MANY_LAYERS) == []


ATTACKS = """
def attack(model, optimizer, x, loader, times):
    for {turn}:
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
"""


def test_who_hands_in_a_batch_with_an_optimizer_may_step_it() -> None:
    assert told(ATTACKS.format(turn="i in range(times)")) == []
    assert told(ATTACKS.format(turn="x in loader")) == ["GK107"]


TRAINED_ELSEWHERE = """
import torch
from elsewhere import Net, loader, {name}

net = Net()
optimizer = torch.optim.AdamW({owned}.parameters())
for x in loader:
    optimizer.zero_grad()
    {name}(net, x)
    optimizer.step()
"""


@pytest.mark.parametrize("name", ["loss_of", "fit_batch"])
def test_code_that_has_an_unseen_network_may_go_back_through_it(name: str) -> None:
    assert told(TRAINED_ELSEWHERE.format(name=name, owned="net")) == []
    assert told(TRAINED_ELSEWHERE.format(name=name, owned="torch.nn.Linear(4, 1)")) == ["GK103"]
