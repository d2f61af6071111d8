"""Gradients and weights handled without torch's own functions, and models that are built anew."""

import re
from pathlib import Path

import pytest

from gradkeeper.engine import Engine
from gradkeeper.model import events as ev
from gradkeeper.report.statement import statement
from gradkeeper.rules import ALL
from gradkeeper.watcher import Watch
from tests.watcher.loops import run


def test_a_model_moved_before_its_optimizer_is_built_is_silent(tmp_path: Path) -> None:
    code = """
    model = nn.Linear(4, 1).to(torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(6, 8, 4, dtype=torch.float64):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    """

    assert run(tmp_path, code).found == []


def test_parameters_that_to_has_built_anew_are_orphans(tmp_path: Path) -> None:
    code = """
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to(torch.float64)
    torch.__future__.set_overwrite_module_params_on_conversion(False)
    for x in torch.randn(6, 8, 4, dtype=torch.float64):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    """

    loop = run(tmp_path, code)

    assert f"GK103:{loop.line('optimizer.step()')}" in loop.found


def test_gradients_added_to_zeros_are_credited(tmp_path: Path) -> None:
    code = """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(20, 8, 4):
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        grads = torch.autograd.grad(model(x).square().mean(), list(model.parameters()))
        for p, grad in zip(model.parameters(), grads):
            p.grad += grad
        optimizer.step()
    """

    loop = run(tmp_path, code)

    assert loop.everything == []


def test_an_assigned_gradient_is_told_at_its_own_line(tmp_path: Path) -> None:
    code = """
    w = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=0.1)
    for _ in range(4):
        w.grad = torch.ones(2)
        optimizer.step()
    """

    loop = run(tmp_path, code)

    assigned = [one.site.line for one in loop.watch.tape if isinstance(one, ev.Assign)]
    assert assigned == 4 * [loop.line("w.grad =")]
    assert loop.found == []


def test_what_was_done_by_hand_just_before_the_loop_is_steady_is_not_lost(tmp_path: Path) -> None:
    code = """
    w = torch.zeros(4, requires_grad=True)
    for x in torch.randn(60, 16, 4):
        if w.grad is not None:
            w.grad.zero_()
        (x @ w - 1).square().mean().backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
    """

    loop = run(tmp_path, code)

    assert loop.found == []
    assert any(isinstance(one, ev.Again) for one in loop.watch.tape)


def test_an_optimizer_that_dies_before_the_end_is_judged(tmp_path: Path) -> None:
    code = """
    def main():
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in torch.randn(6, 8, 4):
            optimizer.zero_grad()
            model(x).square().mean().backward()

    main()
    """

    loop = run(tmp_path, code)

    assert loop.found == [f"GK107:{loop.line('.backward()')}"]


def test_nan_is_seen_without_a_clip_or_a_scaler(tmp_path: Path) -> None:
    code = """
    w = nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([w], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        w.square().sum().sqrt().backward()
        optimizer.step()
    """

    loop = run(tmp_path, code)

    assert loop.found == [f"GK305:{loop.line('optimizer.step()')}"]


def test_the_engine_is_no_prefetcher() -> None:
    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(4, 1)
    engine = Engine(model, torch.optim.SGD(model.parameters(), lr=0.1))
    loader: DataLoader[torch.Tensor] = DataLoader(torch.randn(12, 4), batch_size=2)  # type: ignore[arg-type]

    with Watch(on_finding="record") as watch:
        for window in engine.windows(loader, size=2):
            with window:
                for x in window:
                    window.backward(model(x).square().mean())

    kinds = [type(one) for one in watch.tape if isinstance(one, (ev.Batch, ev.Backward))]
    assert kinds == 6 * [ev.Batch, ev.Backward]


MADE_BY_HAND = {
    "in place": "p.grad.zero_(); p.grad.add_(new)",
    "through data": "p.grad.data.zero_(); p.grad.data.add_(new)",
    "copied": "p.grad.copy_(new)",
    "copied through data": "p.grad.data.copy_(new)",
    "detached": "p.grad.detach().copy_(new)",
    "by index": "p.grad[...] = new",
    "foreach": "torch._foreach_zero_([p.grad]); torch._foreach_add_([p.grad], [new])",
    "through numpy": "p.grad.numpy()[...] = new.numpy()",
    "its data exchanged": "p.grad.data = new",
    "assigned": "p.grad = new",
    "decayed and added": "p.grad.mul_(0.5).add_(new)",
}
TWO_STEPS = """
model = nn.Linear(4, {outputs})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn({rounds}, 8, 4):
    for p in model.parameters():
        new = torch.randn_like(p)
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        {line}
    optimizer.step()
"""


@pytest.mark.parametrize("rounds", [5, 40])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("way", MADE_BY_HAND)
def test_gradients_made_anew_by_hand_are_spent_once(
    way: str, outputs: int, rounds: int, tmp_path: Path
) -> None:
    code = TWO_STEPS.format(line=MADE_BY_HAND[way], outputs=outputs, rounds=rounds)

    assert run(tmp_path, code).found == []


@pytest.mark.parametrize(
    "line", ["pass", "p.grad.mul_(0.5)", "nn.utils.clip_grad_value_(p, 0.01)", "p.grad.data /= 2"]
)
def test_gradients_left_as_they_were_or_scaled_are_spent_again(line: str, tmp_path: Path) -> None:
    code = f"""
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(30, 8, 4):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        for p in model.parameters():
            {line}
        optimizer.step()  # again
    """

    loop = run(tmp_path, code)

    assert f"GK101:{loop.line('# again')}" in loop.found


def test_copies_of_saved_gradients_that_are_zeroed_are_told_when_the_file_is_gone(
    tmp_path: Path,
) -> None:
    code = """
    def restore(model):
        saved = torch.load("pending.pt")
        for name, p in model.named_parameters():
            p.grad = saved[name].clone()

    model = nn.Linear(4, 3)
    torch.save({name: torch.randn_like(p) for name, p in model.named_parameters()}, "pending.pt")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    restore(model)
    optimizer.zero_grad()  # <-
    for x in torch.randn(4, 8, 4):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    """

    loop = run(tmp_path, code)

    assert loop.found == [f"GK402:{loop.line('# <-')}"]


def test_weights_moved_through_data_are_seen_in_a_steady_loop_too(tmp_path: Path) -> None:
    code = """
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    for x in torch.randn(100, 8, 4):
        model.zero_grad()
        model(x).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-0.1)
    """

    loop = run(tmp_path, code)
    page = statement(loop.watch.tape, ALL, [], title="by hand")

    assert loop.everything == []
    assert "The books balance" in page
    assert _total(page, "steps taken") == "100"
    assert _total(page, "thrown away unspent") == "0"


def test_a_page_does_not_praise_books_from_which_something_was_thrown_away(tmp_path: Path) -> None:
    code = """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i, x in enumerate(torch.randn(60, 8, 4)):
        model(x).square().mean().backward()
        if i not in (3, 17, 40):
            optimizer.step()
        optimizer.zero_grad()
    """

    loop = run(tmp_path, code)
    page = statement(loop.watch.tape, ALL, [], title="skipped")

    assert loop.found == []
    assert _total(page, "thrown away unspent") == "3"
    assert "The books balance" not in page
    assert "Nothing wrong was found" in page


def _total(page: str, name: str) -> str:
    (total,) = re.findall(f"<dt>{name}</dt><dd>([^<]*)</dd>", page)
    return str(total)


WINDOW = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(24, 8, 4)):
    model(x).square().mean().backward()
    if (i + 1) % 4 == 0:
        for p in model.parameters():
            {divide}
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("divide", ["p.grad /= 4", "p.grad.div_(4)", "p.grad = p.grad / 4"])
def test_gradients_that_are_divided_before_a_clip_are_divided(divide: str, tmp_path: Path) -> None:
    assert run(tmp_path, WINDOW.format(divide=divide)).found == []


def test_gradients_that_are_divided_before_a_scaler_divides_them_are_divided(
    tmp_path: Path,
) -> None:
    code = WINDOW.replace("model(x).square().mean()", "scaler.scale(model(x).square().mean())")
    code = code.replace("nn.utils.clip_grad_norm_(model.parameters(), 1.0)", UNSCALE)
    code = "scaler = torch.amp.GradScaler('cpu')\n" + code
    code = code.replace("optimizer.step()", "scaler.step(optimizer); scaler.update()")

    assert run(tmp_path, code.format(divide="p.grad /= 4")).found == []
    assert len(run(tmp_path, code.format(divide="pass")).found) == 1


UNSCALE = "scaler.unscale_(optimizer)"


def test_gradients_that_are_only_clipped_are_not(tmp_path: Path) -> None:
    loop = run(tmp_path, WINDOW.format(divide="pass"))

    assert loop.found == [f"GK201:{loop.line('optimizer.step()')}"]


THROWN_AWAY = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
for i, x in enumerate(torch.randn(24, 8, 4)):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    for p in model.parameters():
        {use}
    if (i + 1) % 4 == 0:
        optimizer.step()
"""


@pytest.mark.parametrize("use", ["p.grad /= 4", "p.grad.div_(4)"])
def test_changing_a_gradient_is_not_reading_it(use: str, tmp_path: Path) -> None:
    loop = run(tmp_path, THROWN_AWAY.format(use=use))

    assert loop.found == [f"GK102:{loop.line('zero_grad')}"]


@pytest.mark.parametrize("use", ["kept.append(p.grad.clone())", "kept.append(p.grad / 4)"])
def test_a_gradient_that_is_read_was_made_for_that(use: str, tmp_path: Path) -> None:
    assert run(tmp_path, THROWN_AWAY.format(use=use)).found == []


def test_of_two_lines_that_clear_by_hand_the_first_one_is_told(tmp_path: Path) -> None:
    code = """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(8, 8, 4):
        model(x).square().mean().backward()
        for p in model.parameters():
            p.grad.zero_()  # first
        for p in model.parameters():
            p.grad.zero_()
        optimizer.step()
    """

    loop = run(tmp_path, code)

    assert loop.found == [f"GK102:{loop.line('# first')}"]


HELD_STILL = """
disc, gen = nn.Linear(3, 1), nn.Linear(3, 3)
opt_d = torch.optim.SGD(disc.parameters(), lr=0.1)
opt_g = torch.optim.SGD(gen.parameters(), lr=0.1)
for x in torch.randn(6, 2, 3):
    disc.requires_grad_(False)
    opt_g.zero_grad()
    (-disc(gen(x)).mean()).backward()
    opt_g.step()
    disc.requires_grad_(True)
    opt_d.zero_grad()
    loss = disc(gen(x).detach()).tanh().mean() - disc(x).mean()
    {backward}
    opt_d.step()
"""


def test_a_network_that_is_held_still_at_first_is_expected_to_train(tmp_path: Path) -> None:
    loop = run(tmp_path, HELD_STILL.format(backward="pass"))

    built, step = loop.line("opt_d = "), loop.line("opt_d.step()")
    assert loop.found == [f"GK106:{built}", f"GK103:{step}"]
    assert run(tmp_path, HELD_STILL.format(backward="loss.backward()")).found == []


CLIPPED_FIRST = """
disc, gen = nn.Linear(3, 1), nn.Linear(3, 3)
opts = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (disc, gen)]
for x in torch.randn(6, 2, 3):
    opts[0].zero_grad()
    {first}
    loss = -disc(gen(x)).mean()
    loss.backward()
    {then}
    opts[1].step()
    opts[1].zero_grad()
    opts[0].zero_grad()
    (disc(gen(x)).tanh().mean() - disc(x).mean()).backward()
    opts[0].step()
    {cleared}
"""
CLIP = "nn.utils.clip_grad_norm_(gen.parameters(), 1.0)"


def test_a_clip_before_the_first_backward_is_seen_of_an_optimizer_without_a_name(
    tmp_path: Path,
) -> None:
    wrong = run(tmp_path, CLIPPED_FIRST.format(first=CLIP, then="pass", cleared="pass"))

    assert f"GK304:{wrong.line(CLIP)}" in wrong.found

    right = CLIPPED_FIRST.format(first="pass", then=CLIP, cleared="opts[1].zero_grad()")
    assert run(tmp_path, right).found == []


REFUSED = """
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
for x in torch.randn(5, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    try:
        {first}
    except RuntimeError:
        break
    loss.backward()
    {then}
    optimizer.step()
"""
BY_VALUE = "nn.utils.clip_grad_value_(model.parameters(), 0.5)"


def test_a_clip_that_torch_refuses_for_want_of_gradients_is_misplaced(tmp_path: Path) -> None:
    wrong = run(tmp_path, REFUSED.format(first=BY_VALUE, then="pass"))

    assert wrong.found == [f"GK304:{wrong.line(BY_VALUE)}"]
    assert run(tmp_path, REFUSED.format(first="pass", then=BY_VALUE)).found == []


def test_a_clip_that_refuses_what_is_not_finite_is_in_its_place(tmp_path: Path) -> None:
    strict = "nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)"
    code = REFUSED.format(first="(loss / 0).backward(); " + strict, then="pass")

    assert run(tmp_path, code).found == []


REBUILT = """
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
for x in torch.randn(8, 2, 3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {first}
    model(x).abs().mean().backward()
    {second}
    model(x).square().mean().backward()
    optimizer.step()
"""


def test_what_is_thrown_away_is_told_when_those_who_stepped_are_gone(tmp_path: Path) -> None:
    zero = "optimizer.zero_grad()"
    wrong = run(tmp_path, REBUILT.format(first="pass", second=zero))

    assert wrong.found == [f"GK102:{wrong.line(zero)}"]
    assert run(tmp_path, REBUILT.format(first=zero, second="pass")).found == []


def test_an_update_by_hand_has_the_line_that_read_the_gradient(tmp_path: Path) -> None:
    loop = run(
        tmp_path,
        """
        model = nn.Linear(4, 1)
        for x in torch.randn(6, 8, 4):
            model(x).square().mean().backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.01 * p.grad
        """,
    )

    assert loop.found == [f"GK101:{loop.line('p -= ')}"]


LOADED = """
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(8, 4)).mean().backward()
    model.zero_grad()
    for i, x in enumerate(torch.randn(4, 8, 4)):
        model(x).square().mean().backward()
        if i == 0:
            torch.save(model.state_dict(), "first.pt")
        if i == 2:
            optimizer.step()
            optimizer.zero_grad()
    {moves}
"""


@pytest.mark.parametrize(
    ("moves", "found"),
    [
        ("model.load_state_dict(torch.load('first.pt'))", 1),
        ("with torch.no_grad(): model.weight.sub_(0.1 * model.weight.grad)", 0),
    ],
)
def test_weights_that_are_loaded_do_not_spend_what_waits_and_those_moved_by_hand_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: str, found: int
) -> None:
    monkeypatch.chdir(tmp_path)

    loop = run(tmp_path, LOADED.format(moves=moves))

    assert sum(one.startswith("GK203") for one in loop.found) == found
