"""Code that is not seen and may do what is looked for: then nothing is said of what was seen."""

import re
from collections.abc import Iterable
from functools import lru_cache

from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.values import Opaque, Optim, Value
from gradkeeper.model import events as ev

HARMLESS = re.compile(
    r"lr|learning_rate|save|checkpoint|ckpt|log|print|state|load|schedul|warmup|clip|ema|repr|"
    r"isinstance|len|prepare|wrap|setup|initialize|norm|get_|count|hook|report|record|callback|"
    r"patch|profile|to_device|is_|has_|write|update_param|track|watch",
    re.I,
)
ACTS = re.compile(r"backward|zero_?grad|clear_?grad|reset_?grad|zero_out|optimi[sz]e_step", re.I)

WHICH_OPTIMIZER = "optimizers are kept under keys that are not known"


def meet(r: Rehearsal, name: str, values: Iterable[Value]) -> Optim | None:
    """A call of unknown code by this name, with these arguments: the optimizer among them."""
    last = name.rpartition(".")[2]
    given = _optimizer_in(values)
    if _acts(last):
        r.doubt("gradients are handled in code that is not seen")
    elif given is None:
        return None
    elif not r.loops:
        r.steps_elsewhere = True
    elif not HARMLESS.search(last):
        r.doubt("an optimizer is handed to code that is not seen")
    return given


@lru_cache(maxsize=4096)
def _acts(name: str) -> bool:
    return ACTS.search(name) is not None


def _optimizer_in(values: Iterable[Value]) -> Optim | None:
    for value in values:
        if isinstance(value, Optim):
            return value
        if isinstance(value, Opaque) and isinstance(value.role, Optim):
            return value.role
    return None


def steps_unseen(tape: list[ev.Event]) -> bool:
    """There are steps and no backward: whoever computes the gradients is not seen."""
    credits = (ev.Backward, ev.Assign, ev.Restore)
    stepped = any(isinstance(event, ev.Step) for event in tape)
    return stepped and not any(isinstance(event, credits) for event in tape)
