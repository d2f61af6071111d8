"""Who owns what, and where gradients come from when it takes a second look to tell."""

import ast
from textwrap import dedent

import pytest

from gradkeeper.lint.imports import Project
from gradkeeper.lint.interpreter.machine import Machine
from gradkeeper.lint.interpreter.plan import Plan
from gradkeeper.lint.interpreter.values import NONE, Condition, Constant, Either
from gradkeeper.lint.libraries.leaves import Leaf, atoms
from gradkeeper.lint.libraries.nn import Module, leaves_of
from gradkeeper.lint.libraries.registry import StandardLibraries
from gradkeeper.lint.libraries.tensors import MOST_KNOWN, Param
from tests.lint.linting import loop, told


def test_a_choice_of_two_optimizers_builds_one_of_them() -> None:
    head = """\
import torch
from torch import nn

model = nn.Linear(4, 1)
params = model.parameters()
optimizer = torch.optim.AdamW(params) if decay else torch.optim.Adam(params)
"""
    body = "optimizer.zero_grad()\nmodel(x).mean().backward()\n{clip}optimizer.step()"
    clip = "nn.utils.clip_grad_norm_(params, 1.0)\n"

    assert told(loop(body.format(clip=""), head=head)) == []
    assert told(loop(body.format(clip=clip), head=head)) == ["GK306"]


def test_a_network_may_be_inside_itself() -> None:
    layer, network = Module(Leaf("layer")), Module(Leaf("network"))
    network.children = {"layer": layer, "either": Either(Condition("", NONE), layer, network)}
    layer.children = {"whole": network}

    assert [leaf.name for leaf in network.leaves()] == ["network", "layer"]
    assert [leaf.name for leaf in leaves_of(network.children["either"])] == ["layer", "network"]


def test_gradients_that_are_put_into_a_shared_model_are_spent_there() -> None:
    code = """
    import torch
    from torch import nn

    mine, shared = nn.Linear(4, 1), nn.Linear(4, 1)
    optimizer = torch.optim.Adam(shared.parameters())
    for x in loader:
        optimizer.zero_grad()
        mine.zero_grad()
        mine(x).mean().backward()
        for theirs, own in zip(shared.parameters(), mine.parameters()):
            {put}
        optimizer.step()
        mine.load_state_dict(shared.state_dict())
    """

    assert told(code.format(put="theirs._grad = own.grad")) == []
    assert told(code.format(put="theirs.grad = own.grad")) == []
    assert told(code.format(put="pass")) == ["GK103"]


def test_a_model_that_was_loaded_lets_gradients_through() -> None:
    code = """
    import torch

    judge = torch.jit.load("judge.pt").eval()
    picture = torch.zeros(1, 3, 8, 8, requires_grad=True)
    frame = torch.zeros(1, 3, 8, 8, requires_grad=True)
    optimizer = torch.optim.Adam([picture])
    for step in range(10):
        optimizer.zero_grad()
        loss = judge({seen}).sum() + frame.mean()
        loss.backward()
        optimizer.step()
    """

    assert told(code.format(seen="picture")) == []
    assert told(code.format(seen="frame")) == ["GK103"]


def test_what_has_no_weights_needs_no_owner() -> None:
    head = """\
import torch
from torch import nn
from robots.models.linear import Baseline

model = nn.Linear(4, 4)
last = {last}
optimizer = torch.optim.Adam(model.parameters())
"""
    body = "optimizer.zero_grad()\nlast(model(x)).mean().backward()\noptimizer.step()"
    bare = (
        "nn.Sigmoid()",
        "nn.InstanceNorm2d(4)",
        "nn.LayerNorm(4, elementwise_affine=False)",
        "Baseline(4)",
    )

    assert told(loop(body, head=head.format(last="nn.LayerNorm(4)"))) == ["GK105"]
    for last in bare:
        assert told(loop(body, head=head.format(last=last))) == []


def test_a_network_with_an_optimizer_of_its_own_has_an_owner() -> None:
    code = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)
            {own}

        def forward(self, x):
            return self.layer(x)

    now, later = Net(), Net()
    optimizer = torch.optim.Adam(now.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        (now(x) - later(y)).square().mean().backward()
        optimizer.step()
    """

    assert told(code.format(own="pass")) == ["GK105"]
    assert told(code.format(own="self.opt = torch.optim.Adam(self.parameters())")) == []


def test_what_another_method_sets_may_come_from_any_network() -> None:
    code = """
    import torch
    from torch import nn

    class Agent:
        def __init__(self):
            self.actor, self.critic = nn.Linear(4, 2), nn.Linear(4, 1)
            self.log_prob = None
            self.actor_opt = torch.optim.Adam(self.actor.parameters())
            self.critic_opt = torch.optim.Adam(self.critic.parameters())

        def choose(self, state):
            policy = torch.distributions.Categorical(logits=self.actor(state))
            action = policy.sample()
            {keep} = policy.log_prob(action)
            return action.item()

        def learn(self, state, reward):
            self.actor_opt.zero_grad()
            self.critic_opt.zero_grad()
            delta = reward - self.critic(state)
            (-self.log_prob * delta + delta**2).backward()
            self.actor_opt.step()
            self.critic_opt.step()
    """
    caller = """
    agent = Agent()
    for state, reward in episodes:
        agent.choose(state)
        agent.learn(state, reward)
    """

    assert told(code.format(keep="self.log_prob")) == []
    assert told(code.format(keep="self.log_prob") + caller) == []
    assert told(code.format(keep="log_prob") + caller) != []


def test_sets_of_parameters_in_a_list_are_gone_through_one_by_one() -> None:
    head = """\
import torch
from torch import nn

body, head = nn.Linear(4, 4), nn.Linear(4, 1)
both = list(body.parameters()) + list(head.parameters())
optimizer = torch.optim.Adam(both)
"""
    step = """
    optimizer.zero_grad()
    for task in range(4):
        batch = tasks.sample()
        nn.functional.mse_loss(head(body(batch.x)), batch.y).backward()
    for p in both:
        {scale}
    optimizer.step()
    """

    assert told(loop(step.format(scale="p.grad.data.mul_(1.0 / 4)"), head=head)) == []
    assert told(loop(step.format(scale="pass"), head=head)) == ["GK201"]


def test_a_network_that_takes_over_anothers_weights_needs_no_owner() -> None:
    code = """
    import torch
    from torch import nn

    class Agent:
        def __init__(self):
            self.actor = nn.Linear(4, 2).to("cpu")
            self.actor_old = nn.Linear(4, 2).to("cpu")
            self.optimizer = torch.optim.Adam(self.actor.parameters())

        def sync(self):
            {sync}

    agent = Agent()
    for x in loader:
        agent.optimizer.zero_grad()
        (agent.actor(x) / agent.actor_old(x)).mean().backward()
        agent.optimizer.step()
        agent.sync()
    """

    load = "self.actor_old.load_state_dict(self.actor.state_dict())"
    blend = "for p, old in zip(self.actor.parameters(), self.actor_old.parameters()): {0}"

    assert told(code.format(sync=load)) == []
    assert told(code.format(sync=blend.format("old.data.copy_(p)"))) == []
    assert told(code.format(sync=blend.format("old.data = 0.9 * old.data + 0.1 * p.data"))) == []
    assert told(code.format(sync=blend.format("print(old.data)"))) == ["GK105"]


def test_an_input_that_collects_gradients_belongs_to_no_unknown_optimizer() -> None:
    code = """
    import torch

    def train(model, build, features):
        x = torch.tensor(features, requires_grad=True)
        scheduler, optimizer = build({given})
        for epoch in range(9):
            {zero}
            model(x).mean().backward()
            optimizer.step()
    """

    for given in ("model.parameters()", "config"):
        assert told(code.format(given=given, zero="model.zero_grad()")) == []
        assert told(code.format(given=given, zero="pass")) == ["GK101"]


SEVERAL = """
    import torch
    from judges import Small, Large

    nets = [Small(), Large()]
    optims = []
    for i in range(count):
        optims.append(torch.optim.Adam(nets[i].parameters()))

    def train(i, x):
        net, optim = nets[i], optims[i]
        {zero}
        net(x).mean().backward()
        optim.step()

    for x in loader:
        for i in range(count):
            train(i, x)
    """


def test_one_of_several_networks_may_have_the_optimizer_of_the_same_number() -> None:
    assert told(SEVERAL.format(zero="net.zero_grad()")) == []


@pytest.mark.xfail(reason="how many networks are asked for is not known", strict=True)
def test_one_of_several_networks_has_the_optimizer_of_the_same_number() -> None:
    assert told(SEVERAL.format(zero="pass")) == ["GK101"]


def test_part_of_a_network_may_be_known_before_the_whole() -> None:
    code = """
    import torch
    from torchvision import models

    net = models.vgg16()
    for p in net.features.parameters():
        p.requires_grad = False
    optimizer = torch.optim.SGD(net.{part}.parameters(), lr=0.1)
    for x in loader:
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()
    net.eval()
    """

    assert told(code.format(part="classifier")) == []
    assert told(code.format(part="features")) == ["GK103"]


def test_a_distributed_optimizer_steps_the_one_it_wraps() -> None:
    head = """\
import torch
import horovod.torch as hvd

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
"""
    body = "{zero}\nmodel(x).mean().backward()\noptimizer.step()"

    assert told(loop(body.format(zero="optimizer.zero_grad()"), head=head)) == []
    assert told(loop(body.format(zero="pass"), head=head)) == ["GK101"]


def test_a_function_that_tries_one_step_is_not_called_for_each_batch() -> None:
    code = """
    import torch

    def try_out(net, x):
        optimizer = torch.optim.Adam(net.parameters())
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()
    {train}
    """
    train = "\n    for x in loader:\n        try_out(net, x)\n"

    assert told(code.format(train="")) == []
    assert told(code.format(train=train)) == ["GK604"]


def test_layers_that_are_added_to_a_list_belong_to_it() -> None:
    code = """
    import torch
    from elsewhere import make

    class Adam(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {{}})

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = torch.nn.ModuleList()
            for _ in range(3):
                self.parts += [{part}]

        def forward(self, x):
            for part in self.parts:
                x = part(x)
            return x

    net = Net()
    optimizer = Adam(net.parameters())
    for x in loader:
        {zero}
        net(x).mean().backward()
        optimizer.step()
    """
    zero = "optimizer.zero_grad()"

    assert told(code.format(part="torch.nn.Linear(3, 3)", zero=zero)) == []
    assert told(code.format(part="torch.nn.Linear(3, 3)", zero="pass")) == ["GK101"]
    assert told(code.format(part="make()", zero=zero)) == []


def test_a_copy_of_a_network_that_was_handed_in_is_a_network_of_its_own() -> None:
    code = """
    import copy
    import torch

    def train(model, loader):
        low = copy.deepcopy(model)
        optimizer = torch.optim.Adam(model.parameters())
        for x in loader:
            {zero}
            low(x).sum().backward()
            for full, half in zip(model.parameters(), low.parameters()):
                full.grad = half.grad.float()
                half.grad = None
            optimizer.step()
    """

    assert told(code.format(zero="optimizer.zero_grad()")) == []


def test_nobody_trains_under_a_setting_in_which_there_is_no_optimizer() -> None:
    code = """
    import torch
    from elsewhere import make

    class Model:
        def __init__(self, options):
            self.one, self.other = make(options), make(options)
            if options["is_train"]:
                self.config_training()

        def config_training(self):
            self.first = torch.optim.Adam(self.one.parameters())
            self.second = torch.optim.Adam(self.other.parameters())

        def train(self, x):
            self.first.zero_grad()
            self.second.zero_grad()
            self.other(self.one(x).detach()).mean().backward()
            self.second.step()
            for p in self.other.parameters():
                p.requires_grad = False
            self.other(self.one(x)).mean().backward()
            self.first.step()
            for p in self.other.parameters():
                p.requires_grad = True
    """

    assert told(code) == []


def test_an_optimizer_of_several_groups_is_one_optimizer_however_often_it_is_built() -> None:
    groups = "[{'params': model[0].parameters()}, {'params': model[1].parameters(), 'lr': 0.1}]"
    code = f"""
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    for x in loader:
        optimizer = torch.optim.Adam({groups})
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
    """

    added = code.replace(groups, "model[0].parameters()").replace(
        "optimizer.zero_grad()",
        "optimizer.add_param_group({'params': model[1].parameters()}); optimizer.zero_grad()",
    )

    for one in (code, added):
        assert told(one) == ["GK604"]
        assert told(one.replace("Adam", "SGD")) == []


def test_what_is_thrown_away_is_told_though_each_step_is_another_optimizers() -> None:
    code = """
    import torch
    from torch import nn

    model = nn.Linear(4, 1)
    for i, x in enumerate(torch.randn(5, 2, 4)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        {zero}.zero_grad()
        model(x).mean().backward()
        if (i + 1) % 2 == 0:
            optimizer.step()
    """

    assert told(code.format(zero="optimizer")) == ["GK102"]
    assert "GK102" not in told(code.format(zero="if i % 2 == 0: optimizer"))


def test_leftovers_of_another_loss_are_no_window_of_ones_own() -> None:
    code = """
    import torch
    from torch import nn

    disc, gen = nn.Linear(3, 1), nn.Linear(3, 3)
    opt_d = torch.optim.SGD(disc.parameters(), lr=0.1)
    opt_g = torch.optim.SGD(gen.parameters(), lr=0.1)
    for i, x in enumerate(torch.randn(6, 2, 3)):
        opt_d.zero_grad()
        disc(gen(x)).mean().backward()
        opt_d.step()
        if i % 2 == 0:
            {own}
            opt_g.step()
            opt_g.zero_grad()
    """

    assert told(code.format(own="disc(-gen(x)).mean().backward()")) == ["GK104"]
    assert told(code.format(own="pass")) == ["GK201"]


def test_an_optimizer_that_never_steps_is_told_beside_one_that_does() -> None:
    code = """
    import torch
    from torch import nn

    disc, gen = nn.Linear(3, 1), nn.Linear(3, 3)
    opt_d = torch.optim.SGD(disc.parameters(), lr=0.1)
    opt_g = torch.optim.SGD(gen.parameters(), lr=0.1)
    for x in loader:
        for turn in range({turns}):
            opt_d.zero_grad()
            disc(gen(x).detach()).mean().backward()
            opt_d.step()
        opt_g.zero_grad()
        disc(gen(x)).mean().backward()
        {step}
    """

    for turns in (1, 2):
        assert told(code.format(turns=turns, step="pass")) == ["GK107"]
        assert told(code.format(turns=turns, step="opt_g.step()")) == []


def test_a_scaler_that_is_never_updated_is_told_though_optimizers_come_and_go() -> None:
    code = """
    import torch
    from torch import nn

    model = nn.Linear(4, 1)
    scaler = torch.amp.GradScaler("cpu")
    for x in loader:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        scaler.scale(model(x).mean()).backward()
        scaler.step(optimizer)
        {update}
    """

    assert told(code.format(update="pass")) == ["GK303"]
    assert told(code.format(update="scaler.update()")) == []


def test_a_loss_that_is_always_cleared_is_told_though_optimizers_come_and_go() -> None:
    code = """
    import torch
    from torch import nn

    model = nn.Linear(4, 1)
    for x in loader:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        {zero}
        model(x).abs().mean().backward()
        {late}
        model(x).square().mean().backward()
        optimizer.step()
    """

    assert told(code.format(zero="pass", late="optimizer.zero_grad()")) == ["GK102"]
    assert told(code.format(zero="optimizer.zero_grad()", late="pass")) == []


def test_a_checkpoint_loses_no_gradient_that_nobody_would_apply() -> None:
    code = """
    import torch
    from torch import nn

    body, head = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD({owned}, lr=0.1)
    for i, x in enumerate(torch.randn(7, 2, 4)):
        head(body(x)).square().sum().backward()
        if (i + 1) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
    head.zero_grad()
    torch.save({{"head": head.state_dict(), "optimizer": optimizer.state_dict()}}, "last.pt")
    """
    both = "[*body.parameters(), *head.parameters()]"

    assert "GK401" not in told(code.format(owned="head.parameters()"))
    assert "GK401" in told(code.replace("head.zero_grad()", "pass").format(owned=both))


@pytest.mark.parametrize("made", ["Net(4).to('cuda')", "config.network()"])
def test_a_network_and_its_target_are_two(made: str) -> None:
    code = """
    import torch
    from elsewhere import Net, config, replay

    class Agent:
        def __init__(self):
            self.net = {made}
            self.target = {made}
            self.target.load_state_dict(self.net.state_dict())
            self.optimizer = torch.optim.Adam(self.net.parameters())

        def learn(self, x, y):
            loss = (self.net(x) - y - self.target(x).detach()).mean()
            self.optimizer.zero_grad()
            loss.backward()
            {step}
            for kept, new in zip(self.target.parameters(), self.net.parameters()):
                kept.data.copy_(0.9 * kept.data + 0.1 * new.data)
    """

    assert told(code.format(made=made, step="self.optimizer.step()")) == []
    assert told(code.format(made=made, step="pass")) == ["GK107"]


def test_a_static_method_that_trains_on_one_batch_is_called_for_each() -> None:
    code = """
    class Model:
        @staticmethod
        def train_step(model, optimizer, batches):
            optimizer.zero_grad()
            loss = model(next(batches)).mean()
            {first}
            {second}
    """
    credit, spend = "loss.backward()", "optimizer.step()"

    assert told(code.format(first=credit, second=spend)) == []
    assert told(code.format(first=spend, second=credit)) == ["GK102"]


def test_a_part_of_a_network_is_zeroed_with_what_is_around_the_network() -> None:
    code = """
    import torch
    from torch import nn
    from transformers import BertModel, BertPreTrainedModel

    class Net(BertPreTrainedModel):
        def __init__(self, config):
            super().__init__(config)
            self.bert = BertModel(config)

    model = Net.from_pretrained("base")
    optimizer = torch.optim.AdamW(model.bert.parameters())
    model = nn.DataParallel(model)
    for batch in loader:
        loss = model(**batch)[0]
        loss.mean().backward()
        optimizer.step()
        {zero}
    """

    assert told(code.format(zero="model.zero_grad()")) == []
    assert told(code.format(zero="pass")) == ["GK101"]


def test_a_question_that_is_new_each_time_does_not_tell_parameters_apart_for_ever() -> None:
    code = """
    import torch
    from backbones import build
    from torch import nn

    class Learner:
        def __init__(self):
            self.network = build()
            self.weights, self.means = {{}}, {{}}

        def penalty(self):
            loss = 0
            for name, p in self.network.named_parameters():
                if name in self.weights.keys():
                    loss += (self.weights[name] * (p - self.means[name]).pow(2)).sum()
            return loss

        def measure(self, loader):
            weights = {{n: torch.zeros_like(p) for n, p in self.network.named_parameters()}}
            for x, y in loader:
                nn.functional.cross_entropy(self.network(x), y).backward()
                for name, p in self.network.named_parameters():
                    weights[name] += p.grad.pow(2)
            return weights

        def learn(self, loader):
            optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1)
            for x, y in loader:
                loss = nn.functional.cross_entropy(self.network(x), y) + self.penalty()
                {zero}
                loss.backward()
                optimizer.step()
            self.weights = self.measure(loader)
            self.means = {{n: p.clone() for n, p in self.network.named_parameters()}}

    learner = Learner()
    for loader in tasks:
        learner.learn(loader)
    """
    project = Project({"train.py": ast.parse(dedent(code))})
    m = Machine(Plan(), StandardLibraries(), project, project.facts, 1000)
    leaf = Leaf("network")
    for number in range(3 * MOST_KNOWN):
        Param([leaf], {}, []).decide(m, number, Condition("", Constant(number)))

    assert len(list(atoms([leaf]))) == 2**MOST_KNOWN
    assert told(code.format(zero="optimizer.zero_grad()")) == []
    assert told(code.format(zero="pass")) == ["GK101"]
