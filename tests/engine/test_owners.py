"""Several owners: each window credits its own parameters, and nobody else's."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.optim import SGD, Adam

from gradkeeper.engine import Engine, SetupError, UnknownOwnerError
from tests.engine.problems import classifier, distance, rows, same, weights_of

Networks = dict[str, nn.Module]


def networks(dtype: torch.dtype = torch.float64) -> Networks:
    torch.manual_seed(3)
    return {
        "G": nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4)).to(dtype),
        "D": nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(dtype),
    }


def optimizers(models: Networks) -> dict[str, torch.optim.Optimizer]:
    return {name: Adam(model.parameters(), lr=0.01) for name, model in models.items()}


def batches() -> Iterator[tuple[Tensor, Tensor]]:
    """Real samples and noise."""
    generator = torch.Generator().manual_seed(4)
    for _ in range(6):
        real = torch.randn(8, 4, generator=generator, dtype=torch.float64)
        noise = torch.randn(8, 2, generator=generator, dtype=torch.float64)
        yield real, noise


def real_loss(scores: Tensor) -> Tensor:
    return bce(scores, torch.ones_like(scores))


def fake_loss(scores: Tensor) -> Tensor:
    return bce(scores, torch.zeros_like(scores))


def hand_written_gan() -> Networks:
    """Each optimizer zeroes right before its own backward: leftovers are never spent."""
    models = networks()
    opts = optimizers(models)
    g, d = models["G"], models["D"]
    for real, noise in batches():
        opts["D"].zero_grad()
        (real_loss(d(real)) + fake_loss(d(g(noise).detach()))).backward()
        opts["D"].step()
        opts["G"].zero_grad()
        real_loss(d(g(noise))).backward()
        opts["G"].step()
    return models


def test_a_gan_by_owners_equals_a_correct_hand_written_one() -> None:
    expected = hand_written_gan()

    models = networks()
    g, d = models["G"], models["D"]
    engine = Engine(models, optimizers(models))
    for group in engine.batches(list(batches())):
        with engine.window(owner="D") as window:
            for real, noise in group:
                window.backward(real_loss(d(real)), weight=len(real))
                # Not detached on purpose: a window of D credits D only.
                window.backward(fake_loss(d(g(noise))), counts=False)
        with engine.window(owner="G") as window:
            for _, noise in group:
                window.backward(real_loss(d(g(noise))), weight=len(noise))

    for name in "GD":
        assert distance(weights_of(models[name]), weights_of(expected[name])) <= 1e-12
    assert engine.steps == {"G": 6, "D": 6}


def test_a_group_may_be_cut_finer_and_iterated_more_than_once() -> None:
    expected = hand_written_gan()
    halves = [
        (part_real, part_noise)
        for real, noise in batches()
        for part_real, part_noise in zip(real.split([3, 5]), noise.split([3, 5]), strict=True)
    ]

    models = networks()
    g, d = models["G"], models["D"]
    engine = Engine(models, optimizers(models))
    for group in engine.batches(halves, size=2):
        with engine.window(owner="D") as window:
            for real, noise in group:
                window.backward(real_loss(d(real)), weight=len(real))
                window.backward(fake_loss(d(g(noise).detach())), counts=False)
        with engine.window(owner="G") as window:
            for _, noise in group:
                window.backward(real_loss(d(g(noise))), weight=len(noise))

    for name in "GD":
        assert distance(weights_of(models[name]), weights_of(expected[name])) <= 1e-11


def test_a_window_touches_no_gradient_of_another_owner() -> None:
    models = networks()
    engine = Engine(models, optimizers(models))
    ((_, noise), *_) = batches()

    with engine.window(owner="G") as window:
        window.backward(real_loss(models["D"](models["G"](noise))))
        assert all(p.grad is None for p in models["D"].parameters())
        assert all(p.grad is not None for p in models["G"].parameters())


def test_a_loss_of_another_owner_is_refused() -> None:
    models = networks()
    engine = Engine(models, optimizers(models))
    ((real, _), *_) = batches()

    with pytest.raises(ValueError, match="reaches no parameter of the optimizer of 'G'"):
        with engine.window(owner="G") as window:
            window.backward(real_loss(models["D"](real)))


def test_a_frozen_owner_among_several_is_left_alone() -> None:
    models = networks()
    engine = Engine(models, optimizers(models))
    first = next(models["G"].parameters())
    first.requires_grad_(False)
    before = first.clone()
    ((_, noise), *_) = batches()

    with engine.window(owner="G") as window:
        window.backward(real_loss(models["D"](models["G"](noise))))

    assert window.stepped
    assert torch.equal(first, before)


def test_an_owner_frozen_as_a_whole_cannot_be_credited() -> None:
    models = networks()
    engine = Engine(models, optimizers(models))
    models["G"].requires_grad_(False)
    ((_, noise), *_) = batches()

    with pytest.raises(ValueError, match="requires a gradient"):
        with engine.window(owner="G") as window:
            window.backward(real_loss(models["D"](models["G"](noise))))


def test_a_trunk_shared_by_two_owners_is_spent_by_each_in_its_own_window() -> None:
    def build() -> tuple[nn.Module, Networks]:
        torch.manual_seed(5)
        trunk = nn.Linear(6, 4)
        heads = {name: nn.Sequential(trunk, nn.Linear(4, 1)) for name in ("a", "b")}
        return trunk, dict(heads)

    x = rows(8)[0]
    _, by_hand = build()
    for _ in range(3):
        for model in by_hand.values():
            optimizer = SGD(model.parameters(), lr=0.1)
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

    _, models = build()
    engine = Engine(models, {name: SGD(m.parameters(), lr=0.1) for name, m in models.items()})
    for _ in range(3):
        for name, model in models.items():
            with engine.window(owner=name) as window:
                window.backward(model(x).square().mean())

    assert all(same(models[name], by_hand[name]) for name in models)


def test_options_may_be_given_by_owner() -> None:
    models = networks()
    opts = optimizers(models)
    schedulers = {"G": torch.optim.lr_scheduler.StepLR(opts["G"], 1, gamma=0.5)}
    engine = Engine(models, opts, scheduler=schedulers, clip_norm={"D": 1e-3})
    ((real, noise), *_) = batches()

    with engine.window(owner="D") as window:
        window.backward(real_loss(models["D"](real)))
    with engine.window(owner="G") as window:
        window.backward(real_loss(models["D"](models["G"](noise))))

    rates = {name: opt.param_groups[0]["lr"] for name, opt in opts.items()}
    assert rates == {"G": 0.005, "D": 0.01}


def test_optimizers_at_different_rhythms_count_their_own_steps() -> None:
    models = networks()
    engine = Engine(models, optimizers(models))
    for place, (real, noise) in enumerate(batches()):
        with engine.window(owner="D") as window:
            window.backward(real_loss(models["D"](real)))
        if place % 3 == 2:
            with engine.window(owner="G") as window:
                window.backward(real_loss(models["D"](models["G"](noise))))

    assert engine.steps == {"D": 6, "G": 2}
    assert window.step == 2


def test_an_unknown_owner_is_refused() -> None:
    models = networks()
    engine = Engine(models, optimizers(models))

    with pytest.raises(UnknownOwnerError, match="no owner 'E'; there are: 'G', 'D'"):
        engine.window(owner="E")
    with pytest.raises(UnknownOwnerError, match="say which one"):
        engine.window()
    with pytest.raises(UnknownOwnerError, match=r"engine\.batches"):
        engine.windows([])


def test_what_does_not_fit_together_is_refused() -> None:
    models = networks()
    opts = optimizers(models)
    model = classifier()

    with pytest.raises(SetupError, match="the same names"):
        Engine(models, {"G": opts["G"]})
    with pytest.raises(SetupError, match="a dict of each"):
        Engine(models, opts["G"])
    with pytest.raises(SetupError, match="4 of 4 parameters of 'optimizer'"):
        Engine(model, opts["G"])
    with pytest.raises(SetupError, match="clip_norm names"):
        Engine(models, opts, clip_norm={"E": 1.0})
    with pytest.raises(SetupError, match="dict by owner"):
        Engine(models, opts, scheduler=torch.optim.lr_scheduler.StepLR(opts["G"], 1))
    with pytest.raises(SetupError, match="another optimizer"):
        scheduler = torch.optim.lr_scheduler.StepLR(opts["G"], 1)
        Engine(model, SGD(model.parameters(), lr=0.1), scheduler=scheduler)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "fp8"}, "'fp32', 'bf16' or 'fp16'"),
        ({"on_nonfinite": "ignore"}, "'raise' or 'skip'"),
        ({"unstated": "maybe"}, "unstated is 'read' or 'refuse', not 'maybe'"),
        ({"log": "run"}, "log is a function of the step and a dict of numbers, not 'run'"),
        ({"clip_norm": 0.0}, "above 0"),
        ({"clip_norm": 1.0, "clip_value": 1.0}, "not both"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, object], message: str) -> None:
    model = classifier()
    with pytest.raises(SetupError, match=message):
        Engine(model, SGD(model.parameters(), lr=0.1), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"size": 0}, {"epochs": 0}, {"size": 2.5}])
def test_a_size_is_a_whole_number(options: dict[str, int]) -> None:
    model = classifier()
    engine = Engine(model, SGD(model.parameters(), lr=0.1))
    with pytest.raises(SetupError, match="whole number"):
        engine.windows([], **options)
