"""One run through a program on one path: its variables, its surroundings, the tape it leaves."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from gradkeeper.lint.nodes import Node, Registry
from gradkeeper.lint.paths import Choices
from gradkeeper.lint.values import Accelerator, Frame, Optim, Scaler, Value
from gradkeeper.model import events as ev
from gradkeeper.model.site import Site

MOST_OPERATIONS = 50_000
DEEPEST = 40
SHORT_EPOCH = 3
SHORT_LIST = 24
"""Batches that are run to the last one where windows matter: other gates may be among them."""
MOST_GATE = 64


class OutOfBudgetError(Exception):
    """The program is too large to rehearse to its end."""


class LongerWindowError(Exception):
    """A window is longer than epochs were thought to be: the run has to begin again."""


class FaultError(Exception):
    """An exception that the rehearsed program catches."""


@dataclass(slots=True)
class Loop:
    node: ast.AST
    round: int = 0
    last: bool = False
    data: bool = False
    backwards: int = 0
    steps: int = 0


@dataclass
class Rehearsal:
    choices: Choices
    gate: int = 1
    """The largest number of batches that make a window, as earlier runs have seen it."""
    project: Value = None
    budget: int = MOST_OPERATIONS
    tape: list[ev.Event] = field(default_factory=list)
    frame: Frame = field(default_factory=lambda: Frame({}, None, None))
    grad: bool = True
    autocast: str | None = None
    unsynced: bool = False
    operations: int = 0
    depth: int = 0
    hint: str = ""
    optims: list[Optim] = field(default_factory=list)
    owned: dict[str, str] = field(default_factory=dict)
    """Accounts that some optimizer has adopted."""
    credited: dict[str, None] = field(default_factory=dict)
    inputs: set[str] = field(default_factory=set)
    """Accounts of tensors that a module was given, and that collect gradients."""
    world: Node | None = None
    loops: list[Loop] = field(default_factory=list)
    visited: set[ast.AST] = field(default_factory=set)
    entered: list[ast.AST] = field(default_factory=list)
    finished: dict[ast.AST, bool] = field(default_factory=dict)
    """Training loops run so far; True for those that came to a step."""
    seen_gate: int = 1
    within: Optim | None = None
    doubts: dict[str, None] = field(default_factory=dict)
    """Why parts of this run should not be trusted."""
    assumed: bool = False
    """Some loop's number of batches was assumed."""
    cut_short: bool = False
    """Some loop was left before its end while gradients waited to be spent."""
    sites: dict[tuple[ast.AST, str], Site] = field(default_factory=dict)
    ctx_accelerator: Accelerator | None = None
    modules: dict[str, Frame] = field(default_factory=dict)
    scalers: list[Scaler] = field(default_factory=list)
    partial: bool = False
    """Inside a test on single parameters: what is done is done to some of them only."""
    in_params: int = 0
    asked_for_gradients: bool = False
    """By torch.autograd.grad, which fills no .grad."""
    merged: dict[tuple[int, ...], tuple[Value, list[Value]]] = field(default_factory=dict)
    """What stands for any element of a list, by its elements, which are kept with it."""
    changes: int = 0
    """Attributes and items set so far."""
    idle: int = 0
    """Calls so far of modules that are frozen, and may thaw."""
    guarded: set[Node] = field(default_factory=set)
    """Tensors whose gradient was just seen not to be None."""
    faulty: ast.AST | None = None
    """The try block in which a backward shall fail."""
    failing: int = 0
    steps_elsewhere: bool = False
    """Code that is not seen was given an optimizer before the loop."""
    abroad: bool = False
    """Started in a function whose caller is not known."""
    spoke_of_sync: bool = False
    """There was a backward without exchange between ranks: the others have one."""
    preparing: list[Value] = field(default_factory=list)
    """Modules whose __init__ is being rehearsed."""
    turn: int = 0
    """Batches fetched so far, the present one included."""

    def __post_init__(self) -> None:
        self.registry = Registry(self._split, self._open, self._foreign)
        self.here: ast.AST = ast.Pass(lineno=1, col_offset=0)

    # -- where we are

    def spend(self) -> None:
        self.operations += 1
        if self.operations > self.budget:
            raise OutOfBudgetError

    @property
    def exhausted(self) -> bool:
        return self.operations > self.budget

    def site(self, node: ast.AST) -> Site:
        key = (node, self.frame.function)
        found = self.sites.get(key)
        if found is None:
            column = getattr(node, "col_offset", 0) + 1
            line = getattr(node, "lineno", 1)
            found = Site(self.frame.file, line, column, self.frame.function)
            self.sites[key] = found
        return found

    @property
    def batches(self) -> int:
        """How many batches an epoch has where the source doesn't tell."""
        if self.gate <= 1:
            return SHORT_EPOCH
        self.assumed = True
        return 2 * self.gate + 1 if self.ends_within_window() else 2 * self.gate

    def ends_within_window(self) -> bool:
        """One answer for all whose number of rounds the source doesn't tell."""
        return self.choices.ask("an epoch ends within a window")

    def rounds(self, count: int) -> int:
        """How many of `count` known rounds to run: the end must fall as it would."""
        if count <= max(SHORT_EPOCH, 4 * self.gate, SHORT_LIST if self.gate > 1 else 0):
            return max(0, count)
        if self.gate <= 1:
            return SHORT_EPOCH
        return 2 * self.gate + count % self.gate

    def saw_gate(self, value: Value) -> None:
        if isinstance(value, int) and 1 < value <= MOST_GATE and value > self.seen_gate:
            self.seen_gate = value
            if value > self.gate:
                raise LongerWindowError

    def doubt(self, why: str) -> None:
        self.doubts[why] = None

    # -- accounts

    def _split(self, whole: str, into: tuple[str, ...]) -> None:
        self.tape.append(ev.Split(site=self.site(self.here), account=whole, into=into))
        owner = self.owned.get(whole)
        if owner is not None:
            for part in into:
                self.owned[part] = owner
            for optim in self.optims:
                if whole in optim.adopted:
                    optim.adopted.update(into)
        if whole in self.credited:
            self.credited.update(dict.fromkeys(into))

    def _open(self, account: str, trainable: bool) -> None:
        site = self.site(self.here)
        self.tape.append(ev.Open(site=site, account=account, trainable=trainable))

    def _foreign(self, account: str) -> None:
        """Gradients may lie there already, so that they are not None."""
        site = self.site(self.here)
        self.tape.append(ev.Zero(site=site, accounts=(account,), to_none=False))

    def accounts(self, nodes: Iterable[Node]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for node in nodes:
            found.update(dict.fromkeys(self.registry.accounts(node)))
        return tuple(found)

    def the_world(self) -> Node:
        """Stands for parameters that the source doesn't show."""
        if self.world is None:
            self.world = Node("parameters", trainable=False)
        return self.world

    def own_accounts(self, optim: Optim) -> tuple[str, ...]:
        return tuple(sorted(optim.adopted))

    def adopt(self, optim: Optim, accounts: Iterable[str], node: ast.AST) -> None:
        new = tuple(name for name in accounts if name not in optim.adopted)
        if not new:
            return
        optim.adopted.update(new)
        for name in new:
            self.owned.setdefault(name, optim.name)
        stateful = optim.kind not in ("LBFGS", "plain SGD")
        site = self.site(node)
        self.tape.append(ev.Adopt(site=site, optimizer=optim.name, accounts=new, stateful=stateful))

    def stranger(self) -> Optim | None:
        """The one optimizer whose parameters were not seen, if nothing else trains here."""
        if len(self.optims) == 1 and not self.optims[0].known:
            return self.optims[0]
        return None

    def doubt_owners(self) -> None:
        if len(self.optims) > 1 and any(not one.known for one in self.optims):
            self.doubt("several optimizers, and whose parameters they own is not seen")

    # -- loops

    def post(self, event: ev.Event) -> None:
        self.tape.append(event)

    def fetch(self, node: ast.AST, source: str) -> None:
        self.turn += 1
        self.tape.append(ev.Batch(site=self.site(node), source=source))

    def waiting(self) -> bool:
        """Whether a backward has come since the last step or zeroing."""
        for event in reversed(self.tape):
            if isinstance(event, ev.Backward):
                return True
            if isinstance(event, (ev.Step, ev.Zero)):
                return False
        return False

    def count_backward(self) -> None:
        for loop in self.loops:
            loop.backwards += 1

    def count_step(self) -> None:
        for loop in self.loops:
            if loop.backwards:
                loop.steps += 1
