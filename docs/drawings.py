"""The pictures of the pages, as inline SVG: what is in .grad after each call, and curves.

Colours are variables of stylesheets/gradkeeper.css, so that pictures follow light and dark. The
contents are worked out from the calls, so that a picture cannot claim what the calls do not do.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape

COLUMN, BLOCK, TOP = 92, 22, 36
DEEPEST = 3
MARGIN = 20


@dataclass
class Account:
    """What a .grad holds: the number of each backward in it, and whether a step has used it."""

    held: dict[int, bool] = field(default_factory=dict)
    backwards: int = 0


def _call(account: Account, call: str) -> tuple[str, bool]:
    """What the call applies to the weights, and whether that is a fault."""
    match call:
        case "backward":
            account.backwards += 1
            account.held[account.backwards] = False
        case "zero":
            lost = [number for number, spent in account.held.items() if not spent]
            account.held.clear()
            return (f"{_sum(lost)} lost" if lost else ""), bool(lost)
        case "step":
            applied = list(account.held)
            again = any(account.held.values())
            account.held.update(dict.fromkeys(applied, True))
            return (f"applies {_sum(applied)}" if applied else "applies nothing"), again
    return "", False


def _sum(numbers: list[int]) -> str:
    return " + ".join(map(str, numbers))


NAMES = {"backward": "backward()", "step": "step()", "zero": "zero_grad()"}


def story(title: str, calls: str) -> str:
    """One column for each call: what .grad holds after it, and what reached the weights."""
    account = Account()
    base = TOP + DEEPEST * BLOCK
    words = calls.split()
    drawn = [_text(8, base - 6, ".grad", "quiet"), _text(8, base + 24, "weights", "quiet")]
    for place, call in enumerate(words):
        left = 76 + place * COLUMN
        says, fault = _call(account, call)
        drawn.append(_text(left + COLUMN / 2 - 4, 24, NAMES[call], f"mono middle {call}"))
        drawn.append(_stack(account, left, base))
        drawn.append(_text(left + COLUMN / 2 - 4, base + 24, says, "middle " + _tone(fault)))
    width = 76 + len(words) * COLUMN + MARGIN
    drawn.append(f'<line class="rule" x1="70" x2="{width}" y1="{base}" y2="{base}"/>')
    return _svg(width, base + 36, title, drawn)


def _tone(fault: bool) -> str:
    return "fault" if fault else "fine"


def _stack(account: Account, left: float, base: float) -> str:
    drawn = []
    for height, (number, spent) in enumerate(account.held.items()):
        kind = "spent" if spent else "fresh"
        y = base - (height + 1) * BLOCK
        drawn.append(
            f'<rect class="{kind}" x="{left + 20}" y="{y + 2}" width="{COLUMN - 48}"'
            f' height="{BLOCK - 4}" rx="3"/>'
        )
        drawn.append(_text(left + COLUMN / 2 - 4, y + 16, str(number), f"middle on-{kind}"))
    return "".join(drawn)


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>'


def _svg(width: float, height: float, title: str, drawn: list[str]) -> str:
    return (
        f'<svg class="gk" viewBox="0 0 {width:g} {height:g}" style="max-width: {width:g}px"'
        f' role="img" aria-label="{escape(title)}">\n' + "\n".join(drawn) + "\n</svg>\n"
        f"<figcaption>{escape(title)}</figcaption>\n"
    )


def cycle() -> str:
    boxes = [
        (10, "loss", "of one batch", "box"),
        (250, ".grad", "the account", "box strong"),
        (490, "weights", "what is learned", "box"),
    ]
    drawn = [
        '<defs><marker id="gk-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>'
    ]
    for x, name, note, kind in boxes:
        drawn.append(f'<rect class="{kind}" x="{x}" y="40" width="130" height="64" rx="8"/>')
        drawn.append(_text(x + 65, 68, name, "middle mono big"))
        drawn.append(_text(x + 65, 90, note, "middle quiet"))
    drawn += [
        '<path class="arrow" d="M140 72H248"/>',
        _text(194, 58, "backward()", "middle mono backward"),
        _text(194, 92, "adds", "middle quiet"),
        '<path class="arrow" d="M380 72H488"/>',
        _text(434, 58, "step()", "middle mono step"),
        _text(434, 92, "reads", "middle quiet"),
        '<path class="arrow" d="M285 104C285 150 345 150 345 107"/>',
        _text(315, 160, "zero_grad()", "middle mono zero"),
        _text(315, 178, "empties", "middle quiet"),
    ]
    return _svg(630, 188, "Three calls and one account", drawn)


def history() -> str:
    """Loss over steps with and without zeroing, on a bowl that is steeper one way."""
    curves = {
        "zeroed at each step": _losses(zeroed=True, momentum=0.0),
        "zeroed, momentum 0.9": _losses(zeroed=True, momentum=0.9),
        "never zeroed": _losses(zeroed=False, momentum=0.0),
    }
    width, height, left, low, high = 640, 300, 54, -8, 2
    drawn = []
    for power in range(low, high + 1, 2):
        y = _across(power, low, high, height - 40, 20)
        drawn.append(f'<line class="grid" x1="{left}" x2="{width - 20}" y1="{y:g}" y2="{y:g}"/>')
        drawn.append(_text(left - 8, y + 4, f"1e{power}", "end quiet"))
    for number, (name, losses) in enumerate(curves.items()):
        last = len(losses) - 1
        points = " ".join(
            f"{_across(step, 0, last, left, width - 20):.1f},"
            f"{_across(max(low, math.log10(loss)), low, high, height - 40, 20):.1f}"
            for step, loss in enumerate(losses)
        )
        drawn.append(f'<polyline class="curve c{number}" points="{points}"/>')
        x = left + number * 190
        drawn.append(f'<line class="curve c{number}" x1="{x}" x2="{x + 22}" y1="288" y2="288"/>')
        drawn.append(_text(x + 28, 292, name, ""))
    return _svg(width, height, "Loss (log scale) over 120 steps of SGD, lr 0.05", drawn)


def _across(value: float, low: float, high: float, start: float, end: float) -> float:
    return round(start + (value - low) / (high - low) * (end - start), 1)


def _losses(*, zeroed: bool, momentum: float, steps: int = 120) -> list[float]:
    import torch

    weight = torch.tensor([1.0, 1.0], dtype=torch.float64, requires_grad=True)
    steep = torch.tensor([1.0, 4.0], dtype=torch.float64)
    optimizer = torch.optim.SGD([weight], lr=0.05, momentum=momentum)
    losses = []
    for _ in range(steps + 1):
        if zeroed:
            optimizer.zero_grad()
        loss = (steep * weight.square()).sum() / 2
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


DRAWINGS: dict[str, Callable[[], str]] = {
    "cycle": cycle,
    "history": history,
    "right": lambda: story(
        "The five-line loop: each gradient is applied once",
        "zero backward step zero backward step",
    ),
    "twice": lambda: story(
        "zero_grad() forgotten: old gradients are applied again",
        "backward step backward step backward step",
    ),
    "lost": lambda: story(
        "zero_grad() between backward() and step(): nothing is ever applied",
        "backward zero step backward zero step",
    ),
    "window": lambda: story(
        "A window of three: on purpose, several backward calls for one step",
        "zero backward backward backward step zero",
    ),
    "wiped": lambda: story(
        "zero_grad() on every micro-batch: only the last one counts",
        "zero backward zero backward zero backward step",
    ),
}
