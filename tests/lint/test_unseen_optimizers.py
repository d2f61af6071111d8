"""Optimizers that go through code which is not seen: who steps them cannot be told."""

from tests.lint.linting import HEAD, findings, loop, told

WRAPPED = HEAD + "from elsewhere import schedule\n\nscheduled = schedule(optimizer, warmup=10)\n"


def test_an_optimizer_that_was_handed_to_unseen_code_may_step_there() -> None:
    body = "optimizer.zero_grad()\nmodel(x).mean().backward()"

    assert told(loop(body)) == ["GK107"]
    assert told(loop(body + "\nscheduled.advance()", head=WRAPPED)) == []


def test_a_method_with_a_step_in_its_name_may_step() -> None:
    head = HEAD + "from elsewhere import trainer\n"
    body = "optimizer.zero_grad()\nmodel(x).mean().backward()\n"

    assert told(loop(body + "trainer.update_step()", head=head)) == []
    assert told(loop(body + "trainer.show()", head=head)) == ["GK107"]


def test_what_is_called_before_the_loop_steps_nothing_in_it() -> None:
    body = "optimizer.zero_grad()\nmodel(x).mean().backward()\n"
    head = HEAD + "from elsewhere import Runner, load_step\n\nload_step(model)\n"
    runner = head + "runner = Runner(model, optimizer)\n"

    assert told(loop(body, head=head)) == ["GK107"]
    assert told(loop(body, head=runner)) == ["GK107"]
    assert told(loop(body + "runner.after_batch()", head=runner)) == []
    assert told(loop("runner.after_batch()\n" + body, head=runner)) == []


def test_something_that_was_given_an_optimizer_may_step_it_around_a_block_or_for_each_batch() -> (
    None
):
    head = HEAD + "from elsewhere import Runner\n\nrunner = Runner(model, optimizer)\n"
    body = "optimizer.zero_grad()\nmodel(x).mean().backward()"
    block = "with runner.window():\n    optimizer.zero_grad()\n    model(x).mean().backward()"
    batches = head + "for x in runner.batches():\n    " + body.replace("\n", "\n    ")
    kept = HEAD + "from elsewhere import state\n\nstate.optimizer = optimizer\n"

    assert told(loop(block, head=head)) == []
    assert told(batches) == []
    assert told(loop(body + "\nstate.finish()", head=kept)) == []
    assert told(loop(body + "\nprint(state)", head=kept)) == ["GK107"]


def test_a_counter_of_steps_takes_none() -> None:
    head = HEAD + "from elsewhere import tracker\n"
    body = "optimizer.zero_grad()\nmodel(x).mean().backward()\n"

    assert told(loop(body + "tracker.add_global_step()", head=head)) == ["GK107"]
    assert told(loop(body + "tracker.take_step()", head=head)) == []


def test_two_given_optimizers_that_are_zeroed_and_never_stepped() -> None:
    code = """
    def train(policy, batches):
        for x in batches:
            policy.actor_optimizer.zero_grad()
            policy.evaluate(x).mean().backward()
            {actor}
            policy.critic_optimizer.zero_grad()
            policy.value(x).mean().backward()
            {critic}
    """
    steps = {"actor": "policy.actor_optimizer.step()", "critic": "policy.critic_optimizer.step()"}

    assert told(code.format(**steps)) == []
    assert set(told(code.format(actor="pass", critic="pass"))) == {"GK107"}


def test_two_given_optimizers_that_are_stepped_and_never_zeroed() -> None:
    code = """
    def train(policy, batches):
        for x in batches:
            {zero}
            policy.evaluate(x).mean().backward()
            policy.actor_optimizer.step()
            policy.value(x).mean().backward()
            policy.critic_optimizer.step()
    """
    zero = "policy.actor_optimizer.zero_grad(); policy.critic_optimizer.zero_grad()"

    assert told(code.format(zero=zero)) == []
    assert told(code.format(zero="pass")) == ["GK101", "GK101"]


def test_optimizers_in_turn_own_the_losses_that_they_step_after() -> None:
    code = """
    import torch
    from elsewhere import loss_of, loaders, make

    first, second = make("first"), make("second")
    both = [torch.optim.Adam(one.parameters()) for one in (first, second)]
    for pair in loaders():
        for batch, net, optimizer in zip(pair, [first, second], both):
            {zero}
            loss = loss_of(batch, net)
            loss.backward()
            optimizer.step()
    """

    assert told(code.format(zero="optimizer.zero_grad()")) == []
    assert told(code.format(zero="pass")) == ["GK101"]


def test_settings_of_a_namespace_by_a_name_that_is_not_known() -> None:
    code = """
    import sys
    from types import SimpleNamespace
    {head}
    SETTINGS = {{"small": SimpleNamespace(rate=0.1), "large": SimpleNamespace(rate=0.2)}}
    chosen = SETTINGS[sys.argv[1]]
    for x in loader:
        {zero}
        (model(x) * chosen.rate).mean().backward()
        optimizer.step()
    """

    head = "\n    ".join(HEAD.splitlines())
    assert told(code.format(head=head, zero="optimizer.zero_grad()")) == []
    assert told(code.format(head=head, zero="pass")) == ["GK101"]


def test_an_environment_that_was_given_no_weights_steps_no_optimizer() -> None:
    head = HEAD + "import gym\n\nenv = gym.make('CartPole-v1')\n"
    body = "optimizer.zero_grad()\nmodel(x).mean().backward()\nstate, reward = env.step(x)"

    assert told(loop(body, head=head)) == ["GK107"]


def test_a_given_optimizer_whose_gradients_are_all_zeroed_never_steps() -> None:
    code = """
    def train(model, loader, optimizer):
        for x in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
    """
    elsewhere = """
    def finish(optimizer):
        optimizer.step()
        optimizer.zero_grad()
    """

    assert told(code) == ["GK107"]
    assert findings(code)[0].because == ()
    assert told(code + elsewhere) == []


def test_a_wrapper_by_an_optimizers_name_is_the_optimizer_that_it_was_made_of() -> None:
    head = HEAD + "from elsewhere import spread\n\nnet, spread_opt = spread(model, optimizer)\n"
    right = "spread_opt.zero_grad()\nnet(x).mean().backward()\nspread_opt.step()"
    wrong = "net(x).mean().backward()\nspread_opt.step()"

    assert told(loop(right, head=head)) == []
    assert told(loop(wrong, head=head)) == ["GK101"]


def test_a_method_that_steps_and_does_more_steps() -> None:
    code = """
    def train(model, loader, optimizer):
        {before}
        for x in loader:
            {inside}
            model(x).mean().backward()
            optimizer.step_and_update_lr()
    """
    zero = "optimizer.zero_grad()"

    assert findings(code.format(before="pass", inside=zero)) == []
    assert told(code.format(before=zero, inside="pass")) == ["GK101"]


def test_optimizers_under_keys_that_are_not_known_are_left_alone() -> None:
    code = """
    import torch
    from elsewhere import Bunch, build

    nets = build()
    optims = {made}
    for name in nets.keys():
        optims[name] = torch.optim.Adam(nets[name].parameters())
    for x in loader:
        for optim in optims.values():
            optim.zero_grad()
        nets["generator"](x).mean().backward()
        optims["generator"].step()
    """

    assert told(code.format(made="{}")) == []
    assert told(code.format(made="Bunch()")) == []


def test_a_network_of_an_unseen_base_is_zeroed_by_itself() -> None:
    code = """
    import torch
    from elsewhere import Base

    class Model(Base):
        def forward(self, x):
            return self.body(x)

    model = Model()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        loss = criterion(model(x), y)
        {zero}
        loss.backward()
        optimizer.step()
    """

    assert told(code.format(zero="model.zero_grad()")) == []
    assert told(code.format(zero="pass")) == ["GK101"]


def test_what_a_base_class_sets_up_is_left_to_its_subclass() -> None:
    code = """
    from abc import ABC
    from elsewhere import Continual

    class Method({base}):
        {start}

        def observe(self, x, y):
            {zero}
            self.loss(self.net(x), y).backward()
            {step}
    """
    zero, step, start = "self.opt.zero_grad()", "self.opt.step()", "name = 'method'"
    handed = "def __init__(self, opt): self.opt = opt"

    def spoken(**parts: str) -> list[str]:
        plain = {"base": "Continual", "start": start, "zero": zero, "step": step}
        return told(code.format(**plain | parts))

    assert spoken() == []
    assert spoken(zero="pass") == ["GK101"]
    assert spoken(step="pass") == ["GK107"]
    # The subclasses of this one are not seen, and neither is who hands an optimizer in.
    assert spoken(base="ABC", zero="pass") == []
    assert spoken(start=handed, zero="pass") == []
    assert spoken(start=handed, step="pass") == []


def test_what_takes_a_step_from_here_to_there_is_no_optimizer() -> None:
    code = """
    def train(net, solver, times, loader):
        net(loader.first).mean().backward()
        for t, dt in times:
            x = solver.step({given})
            net.log(x)

    def tune(solver, closure):
        solver.zero_grad()
        solver.step(closure)
    """

    assert told(code.format(given="net, t, dt")) == []
    assert told(code.format(given="")) == ["GK101"]


def test_what_many_given_optimizers_share_is_split_among_them_once() -> None:
    names = [f"opt{number}" for number in range(40)]
    code = f"""
    def train(model, loader, {", ".join(names)}):
        for x in loader:
            {"; ".join(f"{name}.zero_grad()" for name in names)}
            model(x).mean().backward()
            {"; ".join(f"{name}.step()" for name in names)}
    """

    assert told(code) == []
    assert "GK101" in told(code.replace("opt0.zero_grad(); ", ""))


def test_a_module_keeps_no_optimizer_that_one_of_its_functions_was_given() -> None:
    code = """
    import torch
    {imported}
    from torch import nn

    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {given}
    meter = tools.Meter({kept})
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        meter.note(loss.item())
    """
    given = "tools.restore(optimizer)"

    assert told(code.format(imported="import tools", given=given, kept="")) == ["GK107"]
    assert told(code.format(imported="import tools", given="pass", kept="optimizer")) == []
    # What another file has under a name may be an object, which keeps what it is given.
    assert told(code.format(imported="from kit import tools", given=given, kept="")) == []


def test_the_name_of_a_hook_says_when_it_is_called_and_not_what_it_does() -> None:
    head = HEAD + "from elsewhere import handlers\n"
    body = "model(x).mean().backward()\noptimizer.step()\nhandlers.{called}()"

    assert told(loop(body.format(called="on_before_zero_grad"), head=head)) == ["GK101"]
    assert told(loop(body.format(called="zero_grads"), head=head)) == []


def test_what_is_given_parameters_is_no_network_for_that() -> None:
    head = """\
import torch
from elsewhere import Settings
from torch import nn

model = nn.Linear(4, 1)
optimizer = Settings()
optimizer.parameters = list(model.parameters())
"""
    right = "optimizer.zero_grad()\nmodel(x).mean().backward()\noptimizer.step()"
    wrong = "model(x).mean().backward()\noptimizer.zero_grad()\noptimizer.step()"

    assert told(loop(right, head=head)) == []
    assert told(loop(wrong, head=head)) == ["GK102"]


BY_TEXT = """
import torch
from configs import Configs

class Trainer(Configs):
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer = "adam"
    scaler: torch.amp.GradScaler | None = "default"
    name: str = "trainer"

    def train(self):
        for x in self.loader:
            {zero}
            loss = self.model(x).pow(2).mean()
            if self.scaler is not None:
                self.scaler.scale(loss).backward()
                {unscale}
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                loss.backward()
                self.optimizer.step()
"""


def test_a_text_where_a_class_is_announced_stands_for_an_object_of_it() -> None:
    zero, unscale = "self.optimizer.zero_grad()", "self.scaler.unscale_(self.optimizer)"

    assert told(BY_TEXT.format(zero=zero, unscale=unscale)) == []
    assert told(BY_TEXT.format(zero=zero, unscale="pass")) == ["GK301"]
    assert set(told(BY_TEXT.format(zero="pass", unscale=unscale))) == {"GK101"}


OF_ONE_NAME = """
import torch
from library import Continual

class Plain(Continual):
    def observe(self, x):
        {zero}
        self.net(x).mean().backward()
        self.opt.step()

class Joint(Continual):
    def observe(self, x):
        for part in x:
            {zero}
            self.net(part).mean().backward()
            self.opt.step()

class OverTasks(Continual):
    def observe(self, x):
        {zero}
        for task in self.tasks:
            self.net(task).mean().backward()
        self.opt.step()
"""


def test_a_method_for_one_batch_is_called_again_whatever_loops_others_of_its_name_hold() -> None:
    right = OF_ONE_NAME.format(zero="self.opt.zero_grad()")
    wrong = OF_ONE_NAME.format(zero="pass")

    assert told(right) == []
    assert told(wrong) == ["GK101"] * 3


SAVED_WHOLE = """
import torch
from options import args

model = torch.load(args.path).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    model.train()
    optimizer.zero_grad()
    model(x).mean().backward()
    {body}
"""


def test_a_network_that_was_saved_whole_is_a_network() -> None:
    clip, step = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "optimizer.step()"
    right = SAVED_WHOLE.format(body=f"{clip}\n    {step}")
    wrong = SAVED_WHOLE.format(body=f"{step}\n    {clip}")

    assert told(right) == []
    assert told(wrong) == ["GK304"]


ENGINE = """
import torch.nn.functional as F

def train_epoch(engine, loader, saver=None):
    engine.train()
    engine.zero_grad()
    for x, y in loader:
        loss = F.cross_entropy(engine(x), y)
        {body}
        if saver is not None:
            saver.update(loss.item())
"""


def test_a_network_that_steps_by_itself_clears_by_itself_and_not_before() -> None:
    backward, step, zero = "engine.backward(loss)", "engine.step()", "engine.zero_grad()"

    def lines(*body: str) -> str:
        return ENGINE.format(body="\n        ".join(body))

    assert told(lines(backward, step)) == []
    assert told(lines(zero, backward, step)) == []
    assert told(lines(backward, step, zero)) == []
    assert told(lines(backward, zero, step)) == ["GK102"]
