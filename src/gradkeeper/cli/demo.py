"""`gradkeeper demo`: two embedded loops, one that forgets zero_grad and one that is right."""

import argparse
import tempfile
from pathlib import Path

from gradkeeper.model import Findings, Site, audit
from gradkeeper.model.events import Adopt, Backward, Batch, Close, Event, Step, Zero
from gradkeeper.report import text

NAME = "demo"
HELP = "replay two embedded training loops and show what the ledger says of them"

LOOP = """\
for x, y in loader:
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
"""
MENDED = LOOP.replace("    loss =", "    optimizer.zero_grad()\n    loss =")
BATCHES = 5


def configure(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> int:
    del args
    with tempfile.TemporaryDirectory() as folder:
        wrong = Path(folder, "forgets_zero_grad.py")
        wrong.write_text(LOOP)
        right = Path(folder, "zeroes_first.py")
        right.write_text(MENDED)
        show("A loop that trains, never crashes, and is wrong:", wrong)
        show("The same loop, mended:", right)
    return 0


def show(title: str, script: Path) -> None:
    """Prints a script and what the rules say of the tape it makes."""
    from gradkeeper.rules import ALL

    print(f"{title}\n")
    print("".join(f"    {line}\n" for line in script.read_text().splitlines()))
    findings = Findings(audit(tape_of(script), ALL))
    print(text.render(findings).replace(f"{script.parent}/", ""))


def tape_of(script: Path) -> list[Event]:
    """The events of a few rounds, each at the line of the script that causes it."""
    lines = script.read_text().splitlines()

    def at(words: str) -> Site:
        line = next(n for n, text in enumerate(lines, 1) if words in text)
        return Site(str(script), line, lines[line - 1].index(words) + 1, "<module>")

    weights = ("model",)
    tape: list[Event] = [Adopt(site=at("for"), optimizer="optimizer", accounts=weights)]
    for _ in range(BATCHES):
        tape.append(Batch(site=at("for"), source="loader"))
        if "zero_grad" in script.read_text():
            tape.append(Zero(site=at("optimizer.zero_grad"), accounts=weights))
        tape.append(Backward(site=at("loss.backward"), accounts=weights))
        tape.append(Step(site=at("optimizer.step"), optimizer="optimizer"))
    return [*tape, Close(site=at("for"))]
