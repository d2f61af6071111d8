"""How much of a model trains, told once where it is not plain: a part is frozen, or it was meant to
be. A base that trains beside its adapters costs memory, and the base, and nobody is told.
"""

import sys

from torch import nn

from gradkeeper.engine.owner import Owner, parameters_of

ADAPTERS = "peft"
"""Models of this package are meant to train in part."""

_told: set[str] = set()
"""Programs build many engines over one model, in a search or a test: each sentence is told once."""


def tell_census(owners: dict[str, Owner]) -> None:
    for owner in owners.values():
        line = census(owner)
        if line is None or sys.stderr is None:
            continue
        whole = line if owner.alone else f"{owner.name}: {line}"
        if whole not in _told:
            _told.add(whole)
            print(f"gradkeeper: {whole}", file=sys.stderr, flush=True)


def census(owner: Owner) -> str | None:
    """None where all of it trains, as it plainly should."""
    everything = list(owner.model.parameters())
    owned = {id(p) for p in parameters_of(owner.optimizer)}
    training = [p for p in everything if p.requires_grad and id(p) in owned]
    missing = [p for p in everything if p.requires_grad and id(p) not in owned]
    if len(training) == len(everything) and not _has_adapters(owner.model):
        return None
    numbers, of = sum(p.numel() for p in training), sum(p.numel() for p in everything)
    line = (
        f"{len(training)} of {len(everything)} tensors train, {_percent(numbers, of)} of the "
        "numbers"
    )
    if missing:
        line += f"; {len(missing)} more ask for gradients, and the optimizer does not have them"
    return line


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole if whole else 0.0
    if part and share < 0.1:
        return "less than 0.1 %"
    if share < 10:
        return f"{share:.1f} %"
    # Not 100 while something is left out.
    return f"{int(share)} %"


def _has_adapters(model: nn.Module) -> bool:
    return any(type(module).__module__.split(".")[0] == ADAPTERS for module in model.modules())
