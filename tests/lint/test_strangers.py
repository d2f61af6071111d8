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


def test_an_environment_that_was_given_no_weights_steps_no_optimizer() -> None:
    head = HEAD + "import gym\n\nenv = gym.make('CartPole-v1')\n"
    body = "optimizer.zero_grad()\nmodel(x).mean().backward()\nstate, reward = env.step(x)"

    assert told(loop(body, head=head)) == ["GK107"]


def test_gradients_for_a_given_optimizer_that_are_all_zeroed_are_thrown_away() -> None:
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

    assert told(code) == ["GK102"]
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
