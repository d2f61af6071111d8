"""Training loops as people write them, right and wrong ones, drawn from a grammar.

A plan is one option for each choice; `render` makes a program of it that runs on a CPU in a few
milliseconds. The first option of a choice is the plainest one, so to shrink a plan is to go back
to first options. Faults move, double or leave out a line of the loop; rewrites (see `transform`)
change how the program is written. What is a fault and what not is for linter and watcher to say.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from textwrap import indent

from tests.lint.transform import REWRITES, SCRIPT, original, rewrite, unchanged, written

Plan = Mapping[str, str]
ROLES = ("zero", "divide", "backward", "unscale", "clip", "step", "update", "tick", "save", "reset")
SIDES = ("zero_d", "backward_d", "step_d", "clip_d", "zero_g", "backward_g", "step_g", "clip_g")
FAULTS = ("drop", "double", "earlier", "later", "gate", "ungate")
WRITING = ("", "", *REWRITES)

COMMON = {
    "epochs": ("1", "2", "3"),
    "batches": ("6", "4", "7"),
    "data": ("list", "loader", "tensor", "stream"),
    "loop": (
        "for",
        "enumerate",
        "from one",
        "range",
        "next",
        "counting while",
        "progress",
        "restarting",
        "cycle",
    ),
    "optimizer": ("SGD", "momentum", "Adam"),
    "writing": WRITING,
    "writing again": WRITING,
}
SINGLE = {
    "family": ("single",),
    **COMMON,
    "batch": ("pair", "dict", "moved"),
    "model": ("linear", "net", "frozen", "swapped", "deep"),
    "thawed": ("", "later"),
    "owned": ("all", "head", "groups", "trainable", "kept", "added"),
    "loss": ("functional", "module", "own", "sum", "helper", "method"),
    "window": ("1", "2", "3"),
    "count": (
        "modulo",
        "counter",
        "at least",
        "running",
        "last of",
        "zero based",
        "not",
        "helper",
        "state",
        "attribute",
        "counting function",
        "flagged",
        "guard",
        "samples",
        "down",
        "inner",
        "slice",
        "generator",
        "islice",
        "fetched",
    ),
    "gathered": ("", "total"),
    "named": ("", "accumulate", "config", "namespace"),
    "tail": ("", "with the gate", "after the loop"),
    "divide": ("", "line", "inline", "gradients"),
    "zero": ("top", "late", "after", "epoch", "first of window"),
    "zeroed": ("optimizer", "model", "to zero", "by hand", "head", "to None", "helper"),
    "amp": ("", "scaler"),
    "cast": ("", "bfloat16", "float16"),
    "aux": ("", "added", "own backward", "each", "sum", "dict"),
    "clip": ("", "norm", "value", "measure", "groups"),
    "stepped": (
        "",
        "helper",
        "wrapper",
        "closure",
        "by hand",
        "LBFGS",
        "partial",
        "lambda",
        "callbacks",
        "decorated",
        "one of several",
        "on leaving",
    ),
    "average": ("", "ema", "swa", "class"),
    "skipped": ("", "batch", "step", "norm", "cleared"),
    "tried": ("", "step", "backward"),
    "logged": ("", "number", "numbers", "loss"),
    "probed": ("", "first"),
    "ended": ("", "early", "at least"),
    "tick": ("", "step", "epoch", "round"),
    "schedule": ("StepLR", "LambdaLR", "plateau", "OneCycle", "cosine"),
    "save": ("", "epoch", "round", "best"),
    "load": ("", "epoch"),
    "built": ("", "epoch", "round"),
    "evaluated": ("", "epoch"),
    "fault": ("", *(f"{kind} {role}" for kind in FAULTS for role in ROLES)),
    "second fault": ("", "", "", *(f"{kind} {role}" for kind in FAULTS for role in ROLES)),
}
PAIR = {
    "family": ("pair",),
    **COMMON,
    "pair": ("gan", "actor and critic", "joint", "heads"),
    "order": ("d first", "g first"),
    "detach": ("yes", "no"),
    "zero_d": ("before", "top", "after"),
    "zero_g": ("before", "top", "after"),
    "zeroed": ("optimizer", "model"),
    "held": ("names", "dict", "list", "loop"),
    "rhythm": ("each", "second", "third", "late"),
    "penalty": ("", "gradient"),
    "fake": ("own", "shared"),
    "held still": ("", "disc"),
    "several": ("", "d", "g"),
    "amp": ("", "scaler"),
    "clip": ("", "norm"),
    "fault": ("", *(f"{kind} {role}" for kind in FAULTS for role in SIDES)),
    "second fault": ("", "", "", *(f"{kind} {role}" for kind in FAULTS for role in SIDES)),
}


@dataclass(frozen=True)
class Line:
    """One statement of the loop's body. `gated`: only where a window closes."""

    role: str
    text: str
    gated: bool = False


def draw(seed: int) -> Plan:
    """Each choice is the plain one half of the time, so that programs stay readable."""
    chance = random.Random(seed)
    table = chance.choice((SINGLE, SINGLE, PAIR))
    plain = chance.choice((0.3, 0.6, 0.8))
    return {
        name: options[0] if chance.random() < plain else chance.choice(options)
        for name, options in table.items()
    }


def plainer(plan: Plan) -> Iterator[Plan]:
    """Plans with one choice less that is out of the ordinary."""
    table = SINGLE if plan["family"] == "single" else PAIR
    for name, options in table.items():
        if plan[name] != options[0]:
            yield {**plan, name: options[0]}
    for name in ("epochs", "batches", "window"):
        options = table.get(name, ())
        between = options[1 : options.index(plan[name])] if options else ()
        yield from ({**plan, name: option} for option in between)


def shrink(plan: Plan, first_of: Callable[[list[Plan]], Plan | None]) -> Plan:
    """The plainest plan to be had, one choice at a time, of which the same still holds.

    `first_of` names the first of these plans of which it does.
    """
    least: Plan | None = plan
    while least is not None:
        plan = least
        least = first_of(list(plainer(plan)))
    return plan


def render(plan: Plan) -> dict[str, str] | None:
    """The program's files, or None where the choices don't go together."""
    text = _single(plan) if plan["family"] == "single" else _pair(plan)
    if text is None:
        return None
    files = unchanged(original(text))
    for name in dict.fromkeys((plan["writing"], plan["writing again"])):
        new = rewrite(files[SCRIPT], [name]) if name else None
        files |= new or {}  # a rewrite that this script doesn't allow is left out
    program = written(files)
    return program.texts if program else None


# One model, one optimizer


def _single(plan: Plan) -> str | None:
    size = int(plan["window"])
    count = plan["count"] if size > 1 else ""
    counted = count in ("", *COUNTED)
    loop = _loop(plan, needs_index=not counted or plan["ended"] != "")
    if count == "flagged":
        over = "stream()" if plan["data"] == "stream" else "batches"
        target = _target(plan)
        packed = f"({target})" if "," in target else target
        loop = [f"for due, {packed} in flagged({over}, {_size(plan)}):"]
    if not _fits(plan, count):
        return None
    lines = _body(plan, count)
    if loop is None or lines is None:
        return None
    for fault in (plan["fault"], plan["second fault"]):
        lines = _with_fault(lines, fault)
    setup = [*_setup(plan), *_counters(plan, count)]
    inner = _inner(plan) if count in NESTED else loop
    return _program(setup, _epochs(plan, inner, lines, count))


NESTED = ("inner", "slice", "generator", "islice", "fetched")
"""Windows that are loops inside the loop."""
RESET = ("counter", "at least", "samples", "down")
"""Counts that begin again with each window."""
BY_VARIABLE = ("state", "attribute", "counting function", "flagged")
COUNTED = (*RESET, "running", "state", "attribute", "counting function")
"""Windows that a variable counts, and not the loop."""


CLOSURES = ("closure", "LBFGS", "by hand")
"""Steps that windows, and averages of the weights, do not go together with."""


def _fits(plan: Plan, count: str) -> bool:
    if plan["stepped"] in CLOSURES and (count or plan["average"]):
        return False
    if plan["stepped"] and plan["amp"]:
        return False
    if plan["stepped"] == "by hand" and not _needs_no_optimizer(plan):
        return False
    if count in NESTED and (plan["ended"] or plan["gathered"]):
        return False
    if count == "flagged" and plan["ended"]:
        return False
    if plan["tried"] and (plan["stepped"] in CLOSURES or count in NESTED or plan["gathered"]):
        return False
    if plan["clip"] == "groups" and plan["stepped"] == "by hand":
        return False
    if plan["skipped"] == "cleared" and (plan["stepped"] in CLOSURES or plan["gathered"]):
        return False
    if plan["save"] == "best" and (plan["stepped"] in CLOSURES or count in NESTED):
        return False
    if count == "slice" and plan["data"] not in ("list", "tensor"):
        return False
    if plan["gathered"] and (plan["aux"] == "each" or plan["skipped"] or count == "guard"):
        return False
    if plan["logged"] and plan["stepped"] in ("closure", "LBFGS"):
        return False
    if plan["skipped"] == "norm" and (plan["stepped"] or plan["amp"]):
        return False
    if plan["owned"] == "kept" and (plan["clip"] == "value" or plan["built"]):
        return False  # PyTorch itself refuses an iterator that is used up, in these two places
    return plan["batch"] != "dict" or plan["data"] in ("list", "stream")


def _needs_no_optimizer(plan: Plan) -> bool:
    if (
        plan["tick"]
        or plan["save"]
        or plan["built"]
        or plan["zero"] in ("epoch", "first of window")
    ):
        return False
    return plan["zeroed"] in ("model", "by hand", "head")


def _size(plan: Plan) -> str:
    """How the program writes the number of micro-batches in a window."""
    words = {
        "accumulate": "accumulate",
        "config": "config['accumulate']",
        "namespace": "args.accumulate",
    }
    return words.get(plan["named"], plan["window"])


def _target(plan: Plan) -> str:
    if plan["data"] == "tensor":
        return "x"
    return "batch" if plan.get("batch") == "dict" else "x, y"


def _setup(plan: Plan) -> list[str]:
    made = {
        "linear": ["model = nn.Linear(3, 1)"],
        "deep": ["model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))"],
    }
    frozen = ["for p in model.body.parameters():", "    p.requires_grad = False"]
    lines = [*_data(plan), *made.get(plan["model"], ["model = Net()"])]
    lines += frozen if plan["model"] == "frozen" else []
    lines += ["params = model.parameters()"] if plan["owned"] == "kept" else []
    lines += [_built(plan)] if plan["stepped"] != "by hand" else []
    lines += ["model.head = nn.Linear(4, 1)"] if plan["model"] == "swapped" else []
    lines += ["criterion = nn.MSELoss()"] if plan["loss"] == "module" else []
    # A factor of 65536 overflows float16 on the first batches, whose steps are then refused.
    scale = ", init_scale=8.0" if plan["cast"] == "float16" else ""
    lines += [f"scaler = torch.amp.GradScaler('cpu'{scale})"] if plan["amp"] else []
    schedules = {
        "StepLR": "StepLR(optimizer, 5)",
        "LambdaLR": "LambdaLR(optimizer, lambda step: 0.9**step)",
        "plateau": "ReduceLROnPlateau(optimizer)",
        "OneCycle": "OneCycleLR(optimizer, max_lr=0.1, total_steps=100)",
        "cosine": "CosineAnnealingLR(optimizer, T_max=10)",
    }
    if plan["tick"]:
        lines.append(f"scheduler = torch.optim.lr_scheduler.{schedules[plan['schedule']]}")
    averages = {
        "ema": ["average = copy.deepcopy(model)"],
        "swa": ["average = torch.optim.swa_utils.AveragedModel(model)"],
        "class": [AVERAGE, "average = Average(model)"],
    }
    lines += averages.get(plan["average"], [])
    settings = {
        "accumulate": f"accumulate = {plan['window']}",
        "config": f"config = {{'accumulate': {plan['window']}, 'lr': 0.01}}",
        "namespace": f"args = argparse.Namespace(accumulate={plan['window']}, lr=0.01)",
    }
    lines += [settings[plan["named"]]] if plan["named"] else []
    if plan["count"] == "generator":
        lines.append(CHUNKS)
    if plan["count"] == "flagged":
        lines.append(FLAGGED)
    lines += STEPPERS.get(plan["stepped"], [])
    lines += ["def clear():\n    optimizer.zero_grad()"] if plan["zeroed"] == "helper" else []
    if plan["loss"] == "helper":
        lines.append("def compute_loss(x, y):\n    return F.mse_loss(model(x), y)")
    lines += ["best = 100.0"] if plan["save"] == "best" else []
    if plan["logged"]:
        lines.append("history = []" if plan["logged"] == "numbers" else "history = 0.0")
    if plan["probed"]:
        lines += ["model(torch.randn(2, 3)).mean().backward()", "model.zero_grad()"]
    return lines


def _built(plan: Plan) -> str:
    owned = {
        "all": "model.parameters()",
        "head": "model.head.parameters()",
        "groups": "[{'params': model.body.parameters()}, "
        "{'params': model.head.parameters(), 'lr': 0.01}]",
        "trainable": "[p for p in model.parameters() if p.requires_grad]",
        "kept": "params",
        "added": "model.head.parameters()",
    }
    whole = not _has_parts(plan) and plan["owned"] in ("head", "groups", "added")
    built = f"optimizer = {_optimizer(plan, owned['all' if whole else plan['owned']])}"
    if plan["owned"] == "added" and not whole:
        built += "\noptimizer.add_param_group({'params': model.body.parameters()})"
    return built


def _has_parts(plan: Plan) -> bool:
    return plan["model"] not in ("linear", "deep")


def _optimizer(plan: Plan, owned: str) -> str:
    kinds = {
        "SGD": f"torch.optim.SGD({owned}, lr=0.01)",
        "momentum": f"torch.optim.SGD({owned}, lr=0.01, momentum=0.9)",
        "Adam": f"torch.optim.Adam({owned}, lr=0.01)",
    }
    if plan.get("stepped") == "LBFGS":
        return f"torch.optim.LBFGS({owned}, lr=0.01, max_iter=4)"
    return kinds[plan["optimizer"]]


def _data(plan: Plan) -> list[str]:
    count = int(plan["batches"])
    pair = "torch.randn(2, 3), torch.randn(2, 1)"
    if plan.get("batch") == "dict":
        pair = "{'x': torch.randn(2, 3), 'y': torch.randn(2, 1)}"
    else:
        pair = f"({pair})"
    rows = f"torch.randn({2 * count}, 3), torch.randn({2 * count}, 1)"
    kinds = {
        "list": [f"batches = [{pair} for _ in range({count})]"],
        "loader": [f"batches = DataLoader(TensorDataset({rows}), batch_size=2)"],
        "tensor": [f"batches = torch.randn({count}, 2, 3)"],
        "stream": [f"def stream():\n    for _ in range({count}):\n        yield {pair}"],
    }
    return kinds[plan["data"]]


def _loop(plan: Plan, *, needs_index: bool) -> list[str] | None:
    """The head of the loop over batches, and what fetches one inside it."""
    over = "stream()" if plan["data"] == "stream" else "batches"
    target = _target(plan)
    kind = plan["loop"]
    if needs_index and kind in ("for", "next", "progress"):
        kind = "enumerate"
    if kind in ("range", "counting while") and plan["data"] in ("loader", "stream"):
        return None
    packed = f"({target})" if "," in target else target
    rounds = int(plan["batches"]) + 2
    heads = {
        "for": [f"for {target} in {over}:"],
        "enumerate": [f"for i, {packed} in enumerate({over}):"],
        "from one": [f"for i, {packed} in enumerate({over}, start=1):"],
        "range": ["for i in range(len(batches)):", f"    {target} = batches[i]"],
        "next": [
            f"rest = iter({over})",
            "while True:",
            "    try:",
            f"        {target} = next(rest)",
            "    except StopIteration:",
            "        break",
        ],
        "counting while": [
            "i = -1",
            "while i + 1 < len(batches):",
            "    i += 1",
            f"    {target} = batches[i]",
        ],
        "progress": [f"for {target} in tqdm({over}, disable=True):"],
        "restarting": [
            f"rest = iter({over})",
            f"for i in range({rounds}):",
            "    try:",
            f"        {target} = next(rest)",
            "    except StopIteration:",
            f"        rest = iter({over})",
            f"        {target} = next(rest)",
        ],
        "cycle": [f"for i, {packed} in zip(range({rounds}), itertools.cycle({over})):"],
    }
    return heads[kind]


def _inner(plan: Plan) -> list[str]:
    over = "stream()" if plan["data"] == "stream" else "batches"
    size = _size(plan)
    if plan["count"] == "slice":
        return [f"for start in range(0, len(batches), {size}):"]
    if plan["count"] == "generator":
        return [f"for chunk in chunks({over}, {size}):"]
    if plan["count"] == "islice":
        return [
            f"rest = iter({over})",
            f"while chunk := list(itertools.islice(rest, {size})):",
        ]
    rounds = int(plan["batches"]) // int(plan["window"])
    head = [f"rest = iter({over})", f"for _ in range({rounds}):"]
    if plan["count"] == "fetched":
        head.append(f"    chunk = [next(rest) for _ in range({size})]")
    return head


def _body(plan: Plan, count: str) -> list[Line] | None:
    shown = _size(plan)
    divide = plan["divide"] if count else ""
    gathered = plan["gathered"] if count else ""
    whole = "total" if gathered else "loss"
    root = f"({whole} / {shown})" if divide == "inline" else whole
    root = f"scaler.scale({root})" if plan["amp"] else root
    lines = [Line("target", "y = x.mean(1, keepdim=True)")] if plan["data"] == "tensor" else []
    if _target(plan) == "batch":
        lines.append(Line("target", "x, y = batch['x'], batch['y']"))
    elif plan["batch"] == "moved":
        lines.append(Line("target", "x, y = x.to('cpu'), y.to('cpu')"))
    if plan["aux"] == "own backward":
        aux = "model(x).abs().mean()"
        lines.append(Line("aux", f"{f'scaler.scale({aux})' if plan['amp'] else aux}.backward()"))
    lines.append(Line("loss", _loss(plan)))
    if plan["skipped"] == "batch" and count not in NESTED:
        lines.append(Line("loss", "if not torch.isfinite(loss):\n    continue"))
    if plan["skipped"] == "cleared" and count not in NESTED:
        lines.append(Line("loss", "if torch.isnan(loss):\n    optimizer.zero_grad()\n    continue"))
    lines += [Line("divide", f"loss = loss / {shown}")] if divide == "line" else []
    backward = f"{root}.backward()"
    if plan["aux"] == "each":
        part = "scaler.scale(part)" if plan["amp"] else "part"
        parts = (
            f"{'loss / ' + shown if divide == 'inline' else 'loss'}, 0.1 * model(x).abs().mean()"
        )
        backward = f"for part in ({parts}):\n    {part}.backward()"
    lines += [Line("gather", "total = total + loss")] if gathered else []
    if plan["tried"] == "backward":
        handler = "except RuntimeError:\n    model.zero_grad()\n    continue"
        backward = f"try:\n{indent(backward, '    ')}\n{handler}"
    lines.append(Line("backward", backward, gated=bool(gathered)))
    steps = {"samples": "count += len(x)", "down": "count -= 1"}
    if count in (*RESET, "running"):
        lines.append(Line("count", steps.get(count, "count += 1")))
    if count == "state":
        lines.append(Line("count", "state['seen'] += 1"))
    if count == "attribute":
        lines.append(Line("count", "state.seen += 1"))
    if count == "counting function":
        lines.append(Line("count", "due = is_due()"))
    closing = [*_divided(plan, divide), *_clipping(plan), *_stepping(plan), *_averaged(plan)]
    closing += [Line("tick", _tick(plan))] if plan["tick"] == "step" else []
    closing += [Line("reset", _from_start(plan, count))] if count in RESET else []
    closing += [Line("gather", "total = 0")] if gathered else []
    lines += [replace(line, gated=bool(count)) for line in closing]
    lines = _zeroed(plan, lines, gated=bool(count), inner=count in NESTED)
    if plan["stepped"] in ("closure", "LBFGS"):
        lines = _with_closure(lines)
    if plan["built"] == "round" and count not in NESTED:
        lines = [Line("build", _built(plan)), *lines]
    lines += _logged(plan)
    lines += [Line("tick", _tick(plan))] if plan["tick"] == "round" else []
    lines += [Line("save", SAVE)] if plan["save"] == "round" else []
    if plan["save"] == "best":
        better = f"if float(loss) < best:\n    best = float(loss)\n{indent(SAVE, '    ')}"
        lines.append(Line("save", better))
    if count == "guard" and not all(line.gated for line in lines[_first_gated(lines) :]):
        return None
    ends = {"early": "if i == 4:\n    break", "at least": "if i >= 4:\n    break"}
    return [*lines, Line("end", ends[plan["ended"]])] if plan["ended"] else lines


def _from_start(plan: Plan, count: str) -> str:
    return f"count = {_size(plan) if count == 'down' else 0}"


def _logged(plan: Plan) -> list[Line]:
    texts = {
        "number": "history += loss.item()",
        "numbers": "history.append(float(loss))",
        "loss": "history = history + loss",
    }
    return [Line("log", texts[plan["logged"]])] if plan["logged"] else []


def _loss(plan: Plan) -> str:
    kinds = {
        "functional": "F.mse_loss(model(x), y)",
        "module": "criterion(model(x), y)",
        "own": "(model(x) - y).square().mean()",
        "sum": "F.mse_loss(model(x), y, reduction='sum')",
        "helper": "compute_loss(x, y)",
        "method": "model.loss(x, y)" if _has_parts(plan) else "F.mse_loss(model(x), y)",
    }
    loss = f"loss = {kinds[plan['loss']]}"
    loss += " + 0.1 * model(x).abs().mean()" if plan["aux"] == "added" else ""
    if plan["aux"] == "sum":
        loss = f"loss = sum([{kinds[plan['loss']]}, 0.1 * model(x).abs().mean()])"
    if plan["aux"] == "dict":
        terms = f"{{'fit': {kinds[plan['loss']]}, 'size': 0.1 * model(x).abs().mean()}}"
        loss = f"losses = {terms}\nloss = sum(losses.values())"
    if plan["cast"]:
        return f"with torch.autocast('cpu', dtype=torch.{plan['cast']}):\n{indent(loss, '    ')}"
    return loss


def _divided(plan: Plan, divide: str) -> list[Line]:
    """What was added up is divided where it lies."""
    if divide != "gradients":
        return []
    each = "for p in model.parameters():\n    if p.grad is not None:\n"
    return [Line("divide", f"{each}        p.grad /= {_size(plan)}")]


def _averaged(plan: Plan) -> list[Line]:
    texts = {
        "ema": "with torch.no_grad():\n"
        "    for kept, p in zip(average.parameters(), model.parameters()):\n"
        "        kept.mul_(0.9).add_(p, alpha=0.1)",
        "swa": "average.update_parameters(model)",
        "class": "average.update(model)",
    }
    return [Line("average", texts[plan["average"]])] if plan["average"] else []


def _tick(plan: Plan) -> str:
    return "scheduler.step(float(loss))" if plan["schedule"] == "plateau" else "scheduler.step()"


def _with_closure(lines: list[Line]) -> list[Line]:
    """What stands between the first zero or loss and the step is computed by the step."""
    fetched = [line for line in lines if line.role == "target"]
    lines = [*fetched, *(line for line in lines if line.role != "target")]
    first = next(n for n, line in enumerate(lines) if line.role in ("zero", "loss"))
    last = next(n for n, line in enumerate(lines) if line.role == "step")
    inside = [line for line in lines[first:last] if "continue" not in line.text]
    text = "\n".join(["def closure():", *_within(line.text for line in inside), "    return loss"])
    step = Line("step", "optimizer.step(closure)")
    return [*lines[:first], Line("closure", text), step, *lines[last + 1 :]]


SAVE = "torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, 'last.pt')"


def _first_gated(lines: list[Line]) -> int:
    return next((place for place, line in enumerate(lines) if line.gated), len(lines))


def _clipping(plan: Plan) -> list[Line]:
    owned = "params" if plan["owned"] == "kept" else "model.parameters()"
    texts = {
        "norm": f"nn.utils.clip_grad_norm_({owned}, 1.0)",
        "value": f"nn.utils.clip_grad_value_({owned}, 0.5)",
        "measure": f"nn.utils.clip_grad_norm_({owned}, float('inf'))",
        "groups": "for group in optimizer.param_groups:\n"
        "    nn.utils.clip_grad_norm_(group['params'], 1.0)",
    }
    if not plan["clip"]:
        return []
    unscale = [Line("unscale", "scaler.unscale_(optimizer)")] if plan["amp"] else []
    return [*unscale, Line("clip", texts[plan["clip"]])]


def _stepping(plan: Plan) -> list[Line]:
    steps = {
        "helper": "update(optimizer)",
        "wrapper": "stepper.step()",
        "partial": "move()",
        "lambda": "move()",
        "callbacks": "for callback in callbacks:\n    callback()",
        "decorated": "move()",
        "one of several": "for one in optimizers.values():\n    one.step()",
        "on leaving": "with stepping(optimizer):\n    print('on its way')",
    }
    step = steps.get(plan["stepped"], "optimizer.step()")
    if plan["stepped"] == "by hand":
        step = BY_HAND
    if plan["amp"]:
        return [Line("step", "scaler.step(optimizer)"), Line("update", "scaler.update()")]
    if plan["tried"] == "step":
        step = f"try:\n{indent(step, '    ')}\nexcept RuntimeError:\n    print('skipped')"
    if plan["skipped"] == "step":
        step = f"if torch.isfinite(loss):\n{indent(step, '    ')}"
    if plan["skipped"] == "norm":
        norm = "norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)"
        step = f"{norm}\nif torch.isfinite(norm):\n{indent(step, '    ')}"
    return [Line("step", step)]


def _zeroed(plan: Plan, lines: list[Line], *, gated: bool, inner: bool) -> list[Line]:
    by_hand = "for p in model.parameters():\n    if p.grad is not None:\n        p.grad.zero_()"
    texts = {
        "optimizer": "optimizer.zero_grad()",
        "model": "model.zero_grad()",
        "to zero": "optimizer.zero_grad(set_to_none=False)",
        "by hand": by_hand,
        "head": "model.head.zero_grad()" if _has_parts(plan) else "model.zero_grad()",
        "to None": "for p in model.parameters():\n    p.grad = None",
        "helper": "clear()",
    }
    zero = Line("zero", texts[plan["zeroed"]])
    if plan["zero"] == "after":
        return [*lines, replace(zero, gated=gated)]
    if plan["zero"] == "late":
        place = next(place for place, line in enumerate(lines) if line.role == "backward")
        return [*lines[:place], zero, *lines[place:]]
    if plan["zero"] == "top":
        return [replace(zero, role="outer zero") if inner else zero, *lines]
    return lines  # once an epoch, or at the first batch of a window: see `_epochs`


def _counters(plan: Plan, count: str) -> list[str]:
    if count == "helper":
        return ["def is_due(i, size):\n    return (i + 1) % size == 0"]
    if count == "running":
        return ["count = 0"]
    if count == "attribute":
        return ["class State:\n    seen = 0", "state = State()"]
    if count == "counting function":
        return [COUNTING.format(size=_size(plan)), "is_due = counting()"]
    return ["state = {'seen': 0}"] if count == "state" else []


COUNTING = """def counting():
    seen = 0

    def is_due():
        nonlocal seen
        seen += 1
        return seen % {size} == 0

    return is_due"""


BY_HAND = """with torch.no_grad():
    for p in model.parameters():
        if p.grad is not None:
            p -= 0.01 * p.grad"""
WRAPPER = """class Stepper:
    def __init__(self, inner):
        self.inner = inner
        self.taken = 0

    def step(self):
        self.inner.step()
        self.taken += 1
"""
STEPPERS = {
    "helper": ["def update(owner):\n    owner.step()"],
    "wrapper": [WRAPPER, "stepper = Stepper(optimizer)"],
    "partial": [
        "def move(owner, scale):\n    owner.step()",
        "move = functools.partial(move, optimizer, scale=1.0)",
    ],
    "lambda": ["move = lambda: optimizer.step()"],
    "callbacks": ["callbacks = [lambda: None, lambda: optimizer.step()]"],
    "decorated": [
        "def timed(function):\n"
        "    @functools.wraps(function)\n"
        "    def call(*args, **options):\n"
        "        begun = time.time()\n"
        "        result = function(*args, **options)\n"
        "        print(time.time() - begun)\n"
        "        return result\n"
        "    return call",
        "@timed\ndef move():\n    optimizer.step()",
    ],
    "one of several": ["optimizers = {'main': optimizer}"],
    "on leaving": ["@contextlib.contextmanager\ndef stepping(owner):\n    yield\n    owner.step()"],
}
"""What a program defines in order to step, by how it does."""
AVERAGE = """class Average:
    def __init__(self, model):
        self.kept = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, p in model.named_parameters():
            self.kept[name].mul_(0.9).add_(p.detach(), alpha=0.1)"""
FLAGGED = """def flagged(items, size):
    for place, one in enumerate(items):
        yield (place + 1) % size == 0, one"""
CHUNKS = """def chunks(items, size):
    some = []
    for one in items:
        some.append(one)
        if len(some) == size:
            yield some
            some = []
    if some:
        yield some"""


def _gate(plan: Plan, count: str) -> str:
    size = _size(plan)
    index = "i" if plan["loop"] == "from one" else "i + 1"
    zero_based = "i - 1" if plan["loop"] == "from one" else "i"
    gates = {
        "modulo": f"({index}) % {size} == 0",
        "guard": f"({index}) % {size} == 0",
        "not": f"not ({index}) % {size}",
        "last of": f"({zero_based}) % {size} == {size} - 1",
        "zero based": f"({zero_based}) % {size} == 0",
        "counter": f"count == {size}",
        "at least": f"count >= {size}",
        "samples": f"count >= 2 * {size}",
        "down": "count == 0",
        "running": f"count % {size} == 0",
        "state": f"state['seen'] % {size} == 0",
        "attribute": f"state.seen % {size} == 0",
        "counting function": "due",
        "flagged": "due",
        "helper": f"is_due({zero_based}, {size})",
    }
    gate = gates[count]
    if plan["tail"] == "with the gate" and plan["data"] != "stream" and _has_index(plan, count):
        gate = f"{gate} or {index} == len(batches)"
    return gate


def _has_index(plan: Plan, count: str) -> bool:
    counted = count in COUNTED
    indexed = ("enumerate", "from one", "range", "counting while", "restarting", "cycle")
    return not counted or plan["loop"] in indexed


def _epochs(plan: Plan, loop: list[str], lines: list[Line], count: str) -> list[str]:
    outer = [line.text for line in lines if line.role == "outer zero"]
    lines = [line for line in lines if line.role != "outer zero"]
    if count in NESTED:
        body = _inner_body(plan, count, outer, lines)
    else:
        body = _gated(lines, _gate(plan, count) if count else "True", guard=count == "guard")
        if plan["zero"] == "first of window" and count not in ("", "helper", *BY_VARIABLE):
            body = [*_first_of_window(plan, count), *body]
    one = [*loop, *_within(body)]
    if count in RESET:
        one = [_from_start(plan, count), *one]
    one = ["total = 0", *one] if plan["gathered"] and count else one
    if plan["thawed"] and plan["model"] == "frozen" and plan["epochs"] != "1":
        one = [
            "if epoch == 1:\n    for p in model.parameters():\n        p.requires_grad = True",
            *one,
        ]
    one = ["optimizer.zero_grad()", *one] if plan["zero"] == "epoch" else one
    one = [_built(plan), *one] if plan["built"] == "epoch" else one
    if count and count not in NESTED and plan["tail"] == "after the loop":
        one += _flush(plan, lines, count)
    one += [_tick(plan)] if plan["tick"] == "epoch" else []
    if plan["evaluated"]:
        one += ["with torch.no_grad():", "    print(float(model(torch.randn(2, 3)).mean()))"]
    one += [SAVE] if plan["save"] == "epoch" else []
    if plan["load"] and plan["save"]:
        one.append("model.load_state_dict(torch.load('last.pt')['model'])")
    if plan["epochs"] == "1":
        return one
    return [f"for epoch in range({plan['epochs']}):", *_within(one)]


def _inner_body(plan: Plan, count: str, outer: list[str], lines: list[Line]) -> list[str]:
    target, size = _target(plan), _size(plan)
    heads = {
        "inner": [f"for _ in range({size}):", f"    {target} = next(rest)"],
        "slice": [f"for {target} in batches[start:start + {size}]:"],
    }
    in_chunks = [f"for {target} in chunk:"]
    micro = [line.text for line in lines if not line.gated]
    return [
        *outer,
        *heads.get(count, in_chunks),
        *_within(micro),
        *(line.text for line in lines if line.gated),
    ]


def _first_of_window(plan: Plan, count: str) -> list[str]:
    size = _size(plan)
    if count in RESET:
        return [f"if {_from_start(plan, count).replace('=', '==')}:", "    optimizer.zero_grad()"]
    if count == "running":
        return [f"if count % {size} == 0:", "    optimizer.zero_grad()"]
    index = "i - 1" if plan["loop"] == "from one" else "i"
    return [f"if ({index}) % {size} == 0:", "    optimizer.zero_grad()"]


def _flush(plan: Plan, lines: list[Line], count: str) -> list[str]:
    size = _size(plan)
    tests = {
        "counter": "count > 0",
        "at least": "count > 0",
        "samples": "count > 0",
        "down": f"count < {size}",
        "running": f"count % {size} != 0",
        "state": f"state['seen'] % {size} != 0",
        "attribute": f"state.seen % {size} != 0",
        "counting function": "not due",
        "flagged": "not due",
    }
    test = tests.get(count, f"{plan['batches']} % {size} != 0")
    closing = [line.text for line in lines if line.gated]
    return [f"if {test}:", *_within(closing)] if closing else []


# Two networks, two optimizers


def _pair(plan: Plan) -> str | None:
    gated = any("gate" in plan[key].split()[:1] for key in ("fault", "second fault"))
    loop = _loop(plan, needs_index=gated or plan["rhythm"] != "each")
    if loop is None or (plan["pair"] == "joint" and plan["rhythm"] != "each"):
        return None
    d, g = _sides(plan)
    zero_d, zero_g = Line("zero_d", _zero(plan, "d")), Line("zero_g", _zero(plan, "g"))
    if plan["pair"] == "joint":
        lines = _joint(plan, zero_d, zero_g)
    else:
        late = plan["rhythm"] != "each"
        one = _repeated(plan, "d", _side(plan, "d", d, zero_d))
        other = _repeated(plan, "g", _held_still(plan, _side(plan, "g", g, zero_g)))
        other = [replace(line, gated=late) for line in other]
        lines = [*one, *other] if plan["order"] == "d first" else [*other, *one]
        tops = [(plan["zero_d"], zero_d), (plan["zero_g"], zero_g)]
        lines = [*(zero for place, zero in tops if place == "top"), *lines]
    lines += [Line("update", "scaler.update()")] if plan["amp"] else []
    lines = (
        [Line("target", "y = x.mean(1, keepdim=True)")] if plan["data"] == "tensor" else []
    ) + lines
    for fault in (plan["fault"], plan["second fault"]):
        lines = _with_fault(lines, fault)
    index = "i" if plan["loop"] != "from one" else "i - 1"
    gates = {"third": f"({index}) % 3 == 0", "late": f"{index} >= 2"}
    gate = gates.get(plan["rhythm"], f"({index}) % 2 == 0")
    one_epoch = [*loop, *_within(_gated(lines, gate, guard=False))]
    if plan["epochs"] != "1":
        one_epoch = [f"for epoch in range({plan['epochs']}):", *_within(one_epoch)]
    return _program([*_data(plan), *_networks(plan)], one_epoch)


def _networks(plan: Plan) -> list[str]:
    made = {
        "gan": ["disc = nn.Linear(3, 1)", "gen = nn.Linear(3, 3)"],
        "actor and critic": ["disc = nn.Linear(4, 1)", "gen = nn.Linear(3, 1)"],
        "joint": ["disc = nn.Linear(3, 4)", "gen = nn.Linear(4, 1)"],
        "heads": ["trunk = nn.Linear(3, 3)", "disc = nn.Linear(3, 1)", "gen = nn.Linear(3, 1)"],
    }
    extra = " + list(trunk.parameters())" if plan["pair"] == "heads" else ""
    owned_g = f"list(gen.parameters()){extra}" if extra else "gen.parameters()"
    d, g = _optimizer(plan, "disc.parameters()"), _optimizer(plan, owned_g)
    held = {
        "names": [f"opt_d = {d}", f"opt_g = {g}"],
        "dict": [f"opts = {{'d': {d}, 'g': {g}}}"],
        "list": [f"opts = [{d}, {g}]"],
        "loop": [f"opt_d = {d}", f"opt_g = {g}"],
    }
    scaler = ["scaler = torch.amp.GradScaler('cpu')"] if plan["amp"] else []
    return [*made[plan["pair"]], *held[plan["held"]], *scaler]


def _sides(plan: Plan) -> tuple[list[str], list[str]]:
    d, g = _losses(plan)
    return [*d, *PENALTY] if plan["penalty"] and plan["pair"] == "gan" else d, g


PENALTY = (
    "mixed = (0.5 * x + 0.5 * fake).detach().requires_grad_()",
    "slope = torch.autograd.grad(disc(mixed).tanh().sum(), mixed, create_graph=True)[0]",
    "loss_d = loss_d + 0.1 * (slope.norm(dim=1) - 1).square().mean()",
)


def _losses(plan: Plan) -> tuple[list[str], list[str]]:
    cut = ".detach()" if plan["detach"] == "yes" else ""
    if plan["pair"] == "gan" and plan["fake"] == "shared" and plan["order"] == "d first":
        d = ["fake = gen(x)", f"loss_d = disc(fake{cut}).tanh().mean() - disc(x).mean()"]
        return d, ["loss_g = -disc(fake).mean()"]
    if plan["pair"] == "gan":
        d = [f"fake = gen(x){cut}", "loss_d = disc(fake).tanh().mean() - disc(x).mean()"]
        return d, ["loss_g = -disc(gen(x)).mean()"]
    if plan["pair"] == "heads":
        d = [f"loss_d = F.mse_loss(disc(trunk(x){cut}), y)"]
        return d, ["loss_g = F.mse_loss(gen(trunk(x)), -y)"]
    d = ["loss_d = F.mse_loss(disc(torch.cat([x, y], 1)), y)"]
    return d, ["loss_g = -disc(torch.cat([x, gen(x)], 1)).mean()"]


def _held(plan: Plan, side: str) -> str:
    names = {"dict": f"opts['{side}']", "list": f"opts[{0 if side == 'd' else 1}]"}
    return names.get(plan["held"], f"opt_{side}")


def _zero(plan: Plan, side: str) -> str:
    module = "disc" if side == "d" else "gen"
    owner = module if plan["zeroed"] == "model" else _held(plan, side)
    return f"{owner}.zero_grad()"


def _side(plan: Plan, side: str, loss: list[str], zero: Line) -> list[Line]:
    place = plan[f"zero_{side}"]
    lines = [zero] if place == "before" else []
    lines += [Line("loss", text) for text in loss]
    lines.append(Line(f"backward_{side}", f"{_root(plan, f'loss_{side}')}.backward()"))
    lines += _spending(plan, side)
    return [*lines, zero] if place == "after" else lines


def _held_still(plan: Plan, lines: list[Line]) -> list[Line]:
    """The discriminator's parameters want no gradient while the generator's turn lasts."""
    if not plan["held still"]:
        return lines
    text = "for p in disc.parameters():\n    p.requires_grad_({})"
    return [Line("still", text.format(False)), *lines, Line("still", text.format(True))]


def _repeated(plan: Plan, side: str, lines: list[Line]) -> list[Line]:
    """One side trains twice on a batch. Not under a scaler: it takes one step between updates."""
    if plan["several"] != side or plan["fake"] == "shared" or plan["amp"]:
        return lines
    body = "\n".join(_within(line.text for line in lines))
    return [Line(f"turn_{side}", f"for turn in range(2):\n{body}")]


def _spending(plan: Plan, side: str) -> list[Line]:
    owner = _held(plan, side)
    module = "disc" if side == "d" else "gen"
    lines = []
    if plan["clip"]:
        lines += [Line(f"unscale_{side}", f"scaler.unscale_({owner})")] if plan["amp"] else []
        lines.append(Line(f"clip_{side}", f"nn.utils.clip_grad_norm_({module}.parameters(), 1.0)"))
    step = f"scaler.step({owner})" if plan["amp"] else f"{owner}.step()"
    return [*lines, Line(f"step_{side}", step)]


def _joint(plan: Plan, zero_d: Line, zero_g: Line) -> list[Line]:
    """One loss for both."""
    loss = Line("loss", "loss = F.mse_loss(gen(torch.tanh(disc(x))), y)")
    backward = Line("backward_d", f"{_root(plan, 'loss')}.backward()")
    steps = [*_spending(plan, "d"), *_spending(plan, "g")]
    if plan["held"] == "loop":
        steps = [line for line in steps if not line.role.startswith("step")]
        word = "scaler.step(one)" if plan["amp"] else "one.step()"
        steps.append(Line("step_d", f"for one in (opt_d, opt_g):\n    {word}"))
    zeros = [(plan["zero_d"], zero_d), (plan["zero_g"], zero_g)]
    before = [zero for place, zero in zeros if place != "after"]
    after = [zero for place, zero in zeros if place == "after"]
    return [*before, loss, backward, *steps, *after]


def _root(plan: Plan, loss: str) -> str:
    return f"scaler.scale({loss})" if plan["amp"] else loss


# Writing it down


def _with_fault(lines: list[Line], fault: str) -> list[Line]:
    """The line of that role is left out, doubled, moved by one, or put in or out of the gate."""
    kind, _, role = fault.partition(" ")
    place = next((place for place, line in enumerate(lines) if line.role == role), None)
    if place is None:
        return lines
    line, before, after = lines[place], lines[:place], lines[place + 1 :]
    match kind:
        case "drop":
            return [*before, *after]
        case "double":
            return [*before, line, line, *after]
        case "earlier" if before and before[-1].role not in ("loss", "closure"):
            return [*before[:-1], replace(line, gated=before[-1].gated), before[-1], *after]
        case "later" if after:
            return [*before, after[0], replace(line, gated=after[0].gated), *after[1:]]
        case "gate" | "ungate":
            return [*before, replace(line, gated=kind == "gate"), *after]
    return lines


def _gated(lines: list[Line], gate: str, *, guard: bool) -> list[str]:
    """Neighbours under the same gate share one `if`; as a guard, it is a `continue`."""
    if guard and all(line.gated for line in lines[_first_gated(lines) :]):
        first = _first_gated(lines)
        head = [line.text for line in lines[:first]]
        skip = [f"if not ({gate}):", "    continue"]
        return [*head, *skip, *(line.text for line in lines[first:])]
    text: list[str] = []
    open_gate = False
    for line in lines:
        inside = line.gated and gate != "True"
        if inside and not open_gate:
            text.append(f"if {gate}:")
        text.append(indent(line.text, "    ") if inside else line.text)
        open_gate = inside
    return text


def _within(lines: Iterable[str]) -> list[str]:
    return [indent(line, "    ") for line in lines]


def _program(setup: list[str], loop: list[str]) -> str:
    text = "\n".join([*setup, *loop])
    head = ["import torch", "import torch.nn.functional as F", "from torch import nn"]
    if "DataLoader" in text:
        head.append("from torch.utils.data import DataLoader, TensorDataset")
    if "tqdm(" in text:
        head.append("from tqdm import tqdm")
    head += [f"import {name}" for name in MODULES if f"{name}." in text]
    return "\n".join([*head, NET if "Net()" in text else "", "torch.manual_seed(0)", text, ""])


MODULES = ("argparse", "contextlib", "copy", "functools", "itertools", "time")
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))

    def loss(self, x, y):
        return F.mse_loss(self(x), y)
"""
