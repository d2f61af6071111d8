"""A script of events: what a block of code would do, told by hand, each event at its line."""

from typing import Any

from gradkeeper.model import Event, Finding, Findings, Rule, Site, audit
from gradkeeper.model import events as ev
from gradkeeper.model.events import KINDS
from gradkeeper.rules import ALL


class Script:
    """Posts events at the lines of a text: `script.step("optimizer.step()", optimizer="opt")`."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.tape: list[Event] = []
        self.owned: dict[str, tuple[str, ...]] = {}

    def at(self, words: str, nth: int = 1) -> Site:
        """The first line that holds these words, or the second, ..."""
        found = [number for number, line in enumerate(self.lines, 1) if words in line]
        if len(found) < nth:
            raise AssertionError(f"no line holds {words!r}, or not {nth} times")
        number = found[nth - 1]
        return Site("block.py", number, self.lines[number - 1].index(words) + 1)

    def __getattr__(self, kind: str) -> Any:
        name = kind.replace("_", "-")
        if name not in KINDS:
            raise AttributeError(kind)

        def post(words: str = "import", *, nth: int = 1, **facts: Any) -> None:
            self.tape.append(KINDS[name](site=self.at(words, nth), **facts))

        return post

    def build(self, *accounts: str, optimizer: str = "optimizer", **facts: Any) -> None:
        """An optimizer is built over these accounts, at the line `optimizer = ...`."""
        self.owned[optimizer] = accounts
        self.adopt(f"{optimizer} =", optimizer=optimizer, accounts=accounts, **facts)

    def fetch(self, source: str = "") -> None:
        """The next round of the loop over `x`."""
        loops = ("for i, x", "for x")
        words = next(words for words in loops if any(words in line for line in self.lines))
        self.batch(words, source=source)

    def credit(self, *accounts: str, **facts: Any) -> None:
        """`loss.backward()` reaches these accounts, or those of `optimizer`."""
        if "scaler" in facts:
            self.scale("loss.backward()", scaler=facts["scaler"])
        self.backward("loss.backward()", accounts=accounts or self.owned["optimizer"], **facts)

    def micro_batch(self, *accounts: str, source: str = "", **facts: Any) -> None:
        self.fetch(source)
        self.credit(*accounts, **facts)

    def fresh_batch(self, *accounts: str, source: str = "", **facts: Any) -> None:
        """Fetch, zero, backward."""
        self.fetch(source)
        self.clear()
        self.credit(*accounts, **facts)

    def spend(self, optimizer: str = "optimizer", **facts: Any) -> None:
        self.step(f"{optimizer}.step()", optimizer=optimizer, **facts)

    def clear(self, optimizer: str = "optimizer", **facts: Any) -> None:
        """`optimizer.zero_grad()`: all that it owns, and nothing else."""
        self.zero(f"{optimizer}.zero_grad()", accounts=self.owned[optimizer], **facts)

    def train(self, rounds: int, *accounts: str, source: str = "", **facts: Any) -> None:
        """The plain loop: fetch, zero, backward, step."""
        for _ in range(rounds):
            self.fresh_batch(*accounts, source=source, **facts)
            self.spend()

    def train_scaled(self, rounds: int, *, taken: bool = True, **facts: Any) -> None:
        """The same through a GradScaler, which takes each step or refuses it."""
        for _ in range(rounds):
            self.fresh_batch(scaler="scaler", **facts)
            self.spend(scaler="scaler", taken=taken)
            self.update("optimizer.step()", scaler="scaler")

    def window(self, size: int, *accounts: str, source: str = "", **facts: Any) -> None:
        """Gradients of so many batches add up; one step, then zero."""
        for _ in range(size):
            self.micro_batch(*accounts, source=source, **facts)
        self.spend()
        self.clear()

    def close(self) -> None:
        self.tape.append(ev.Close(site=self.at("")))

    def findings(self) -> list[Finding]:
        return list(Findings(audit(self.tape, ALL)))

    def lines_of(self, rule: Rule) -> list[int]:
        """Where this rule speaks, at whatever severity."""
        return [one.site.line for one in self.findings() if one.rule == rule.code]

    def alarms(self) -> list[str]:
        """The errors and warnings of any rule, as `GK101:8`."""
        shown = [one for one in self.findings() if one.severity != "info"]
        return [f"{one.rule}:{one.site.line}" for one in shown]


def mean(over: int = 1) -> dict[str, Any]:
    """What is known of a mean loss that was divided by `over`."""
    return {"multiplier": 1 / over, "reduction": "mean"}


def block(rule: Rule, kind: str) -> Script:
    """The rule's own example, ready to be told."""
    code = next(one.code for one in rule.blocks if one.kind == kind)
    return Script(code)


def over_model(script: Script) -> Script:
    """With an `optimizer` over one account, the model: all that most loops need."""
    script.build("model")
    return script


def reasons(finding: Finding) -> list[tuple[int, str]]:
    return [(because.site.line, because.note) for because in finding.because]


def marked(rule: Rule) -> list[int]:
    """The lines that its bad example says are at fault."""
    return next(one.marked for one in rule.blocks if one.kind == "bad")
