"""The only place that may look at the user's names.

An entry says what something unknown is taken for, or what code out of sight may do, where its use
does not tell. No rule looks at names: a finding is always about what happens to gradients then.
Entries name a labelled case that needs them, but for those that many need; what none needs goes.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gradkeeper.lint.interpreter.vocabulary import words

OPTIMIZER = re.compile(r"optim|(^|[_.])(opt|optims?|opts|solver)([_.\d]|$)|Opt\d*$|^opt[A-Z]")
"""Something that is stepped, never zeroed, and not seen being built."""
SCHEDULER = re.compile(r"sched|(^|_)lr_?(decay)?$|warmup|plateau", re.I)
SCALER = re.compile(r"scaler", re.I)
MODULE = re.compile(r"model|net|(^|_)(actor|critic|encoder|decoder|generator|discriminator)$", re.I)
"""Something that is called with data and nothing else is asked of."""

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""`save_state`, `saveState`, `LRFinder`: the words of a name, whichever way they are joined."""
HARMLESS = words("lr lrs rate len str is has get log logs logger logging device")
HARMLESS_BEGINNINGS = tuple(
    words(
        """sav checkpoint ckpt print state load schedul warmup repr count isinstance report record
        writ track watch summar format"""
    )
)
"""Functions that are given an optimizer to read it, set its rate or save it, by whole words and by
their beginnings: test_twins.py, a helper out of sight."""
RATE = re.compile(r"^_?(adjust|set|update|change|decay|get|print)_(the_)?(lr|learning_rate)", re.I)
"""Those of them that see to its rate, and to nothing else: test_twins.py, another helper."""
ACTS = re.compile(
    r"(?<!before_)(?<!after_)(backward|zero_?grad|clear_?grad|reset_?grad|optimi[sz]e_step)", re.I
)
"""Functions that say they handle gradients; `on_before_zero_grad()` only says when it is called."""


READS = re.compile(r"(?<!clip_)grad", re.I)
"""Functions that look at gradients, or handle them: test_twins.py, gradients that are wanted. Who
clips them wants nothing of them."""
STEPS = re.compile(r"(^|_)step(s|_|$)|^optimi[sz]e(_|$)", re.I)
"""Functions that may take a step: test_unseen_optimizers.py, `trainer.update_step()`."""
COUNTS_STEPS = re.compile(
    r"^_?(get|set|add|inc|increment|is|has|num|log|count)_|global_step|steps?_(no|num|per|id)(_|$)",
    re.I,
)
"""Those of them that only say or count which one it is: `tracker.add_global_step()`."""
STEPS_AND_MORE = re.compile(r"^step_(and|with)_", re.I)
"""A method of an optimizer that steps, and says what else: `step_and_update_lr()`."""
ACCUMULATES = re.compile(r"accum", re.I)
"""A window that the program itself calls accumulation: styles/bug/55, the model's own mean loss."""
MICROBATCH = re.compile(r"(micro|mini|sub)_?batch", re.I)
"""By so many rows a loop goes through a batch: test_loops.py, a batch in parts."""

STARRED = {
    "torch": "torch",
    "nn": "torch.nn",
    "F": "torch.nn.functional",
    "optim": "torch.optim",
}
"""What `import *` brings from a module that is not seen: test_twins.py, by a star import."""

CLASS = re.compile(r"_?[A-Z]+[a-z]")
"""What makes another object each time: test_owners.py, a network and its target."""


@lru_cache(maxsize=4096)
def is_class(name: str) -> bool:
    return CLASS.match(name) is not None


def is_microbatch(name: str) -> bool:
    return MICROBATCH.search(name) is not None


def is_accumulation(names: set[str]) -> bool:
    return any(ACCUMULATES.search(name) for name in names)


@lru_cache(maxsize=4096)
def _kind(last: str, steps: bool) -> str:
    if SCALER.search(last):
        return "scaler"
    if SCHEDULER.search(last):
        return "scheduler"
    if OPTIMIZER.search(last):
        return "optimizer"
    if not steps and MODULE.search(last):
        return "module"
    return ""


def kind_of(text: str, uses: set[str]) -> str:
    return _kind(text.rpartition(".")[2], "step" in uses)


@lru_cache(maxsize=4096)
def reads_gradients(name: str) -> bool:
    return READS.search(name) is not None


@lru_cache(maxsize=4096)
def sees_to_rate(name: str) -> bool:
    return RATE.search(name) is not None


@lru_cache(maxsize=4096)
def is_harmless(name: str) -> bool:
    found = [word.lower() for word in WORD.findall(name)]
    return any(word in HARMLESS or word.startswith(HARMLESS_BEGINNINGS) for word in found)


@lru_cache(maxsize=4096)
def may_step(name: str) -> bool:
    return STEPS.search(name) is not None and COUNTS_STEPS.search(name) is None


@lru_cache(maxsize=4096)
def steps_and_more(name: str) -> bool:
    return STEPS_AND_MORE.search(name) is not None


@lru_cache(maxsize=4096)
def acts_on_gradients(name: str) -> bool:
    return ACTS.search(name) is not None
