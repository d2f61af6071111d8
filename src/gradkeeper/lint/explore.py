"""Which runs to make: where to begin, which answers to try, and when to stop."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from gradkeeper.lint.coverage import TOO_LARGE, Coverage
from gradkeeper.lint.imports import Project
from gradkeeper.lint.interpreter.facts import CREDITS, DEFINITIONS, TrainingFunction
from gradkeeper.lint.interpreter.machine import Machine
from gradkeeper.lint.interpreter.objects import Class, Function, Instance, StaticMethod
from gradkeeper.lint.interpreter.state import (
    BudgetSpentError,
    Frame,
    LoudError,
    Mode,
    Plan,
    ProgramEndsError,
    Question,
    RaisedError,
)
from gradkeeper.lint.interpreter.values import Call, Constant, Value
from gradkeeper.lint.libraries.optim import Optimizer
from gradkeeper.lint.libraries.recording import Owner, Tape, close, openings
from gradkeeper.lint.libraries.registry import StandardLibraries
from gradkeeper.lint.libraries.tensors import Finite
from gradkeeper.lint.parsing import TOO_DEEP
from gradkeeper.model import events as ev
from gradkeeper.model.auditing import audit
from gradkeeper.model.finding import Finding, Findings, Severity
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import Site

MOST_RUNS = 8
PATIENCE = 2
"""Runs one after the other that brought nothing new."""
FREE_SPLITS = 1
"""Groups of settings that are taken apart though no finding depends on them."""
MOST_TRIALS = 3
"""Runs with a finding that are tried, until one stands."""
MOST_VERIFIED = 24
MOST_FLIPS = 6
"""Settings that are changed one by one, to see which of them a finding depends on."""
MOST_BLAMED = 3
"""Settings that are left out of a group one by one, since nothing trained; then halves tell."""
MOST_ROUNDS = 12
"""Batches of an epoch that are rehearsed for the sake of loops that leave some out."""
WINDOW = 3
"""What stands for "some N > 1"."""
BY_CHANCE: frozenset[Mode] = frozenset({"yes", "no", "later yes", "later no"})
OPERATIONS = 160_000
TOTAL = 40_000
OF_A_FILE = 10_000
"""What a file more, in which nothing trains, may cost."""

MANY = 200
"""Functions that seem to train, by what they call."""

WITHOUT_OWNERS = frozenset({"GK301", "GK303", "GK306", "GK601", "GK604"})
"""Rules that don't depend on who owns what, or on what unseen code does to gradients."""

CLOSED = {
    "GK101": frozenset({"lent each round", "wrapper"}),
    "GK102": frozenset({"optimizers"}),
    "GK103": frozenset({"optimizer", "loss", "lent owned", "caller"}),
    "GK104": frozenset({"optimizers"}),
    "GK105": frozenset({"optimizer", "lent"}),
    "GK106": frozenset({"optimizer", "loss", "lent owned", "caller"}),
    "GK107": frozenset({"strange step"}),
    "GK601": frozenset({"loss", "lent"}),
}
"""By rule: where the world of a run may not be open for it to speak. See `recording.openings`;
`caller`: an unseen one hands in what may be made of parameters that were there before."""

FROM_ABSENCE = frozenset({"GK103", "GK105", "GK106", "GK107", "GK307", "GK401", "GK602"})
"""Rules that may speak of a closed world only (DESIGN section 5)."""

OF_TAILS = frozenset({"GK202", "GK203"})
"""Rules about what a window holds when its loop ends."""
OF_RHYTHM = frozenset({"GK102", "GK201", "GK205", "GK304", "GK401"})
"""Rules about what is left undone: a batch that is left out for its numbers is none of it."""

OF_EVERY_ROUND = frozenset({"GK604"})
"""Rules about what each round does: what happens in one of them is none of it."""

Key = tuple[str, str, int]


@dataclass(slots=True)
class Run:
    """One run: what was answered, what happened, what the rules say of it."""

    plan: Plan
    questions: dict[Hashable, Question]
    tape: list[ev.Event] = field(default_factory=list)
    findings: dict[Key, Finding] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    openings: frozenset[str] = frozenset()
    """Where its world is open: see `recording.openings`."""
    spends: bool = False
    ended: bool = True
    period: int = 1
    short_of: int = 0
    numbered: bool = False
    faults: tuple[Hashable, ...] = ()
    provided: frozenset[str] = frozenset()
    missed: frozenset[str] = frozenset()
    """Attributes that an object's __init__ has set in this run, and those it would have needed."""
    passes_by_a_step: bool = False
    """A step stands behind a test that never let it be come to, in any round of those rehearsed."""
    verified: bool = False
    """Its answers of chance were all tried the other way."""
    telling: dict[Key, Hashable] = field(default_factory=dict)
    """By finding: the setting that makes it go away, if only that one is changed."""
    partial: bool = False
    """Begun in a function that nobody calls, of a program that steps somewhere."""
    settled: bool = True
    """Of each setting that it asked for, another run has the other side."""
    loops: tuple[ast.AST, ...] = ()
    """Training loops that it came to."""
    lines: frozenset[tuple[str, int]] = frozenset()
    """Where something happened: a run that never came to a line says nothing of it."""
    under: dict[tuple[str, int], tuple[Hashable, ...]] = field(default_factory=dict)
    """By such a line: the settings, outermost first, in whose branches it lies."""

    @property
    def steps(self) -> int:
        return sum(isinstance(event, (ev.Step, ev.Move)) for event in self.tape)

    @property
    def where_it_steps(self) -> set[tuple[str, int]]:
        steps = (event for event in self.tape if isinstance(event, (ev.Step, ev.Move)))
        return {(step.site.file, step.site.line) for step in steps}

    @property
    def goes_on(self) -> bool:
        """It comes to a second step, with a backward between the two."""
        stepped = credited = False
        steps = any(isinstance(event, ev.Step) for event in self.tape)
        for event in self.tape:
            if isinstance(event, ev.Step if steps else ev.Move):
                if credited:
                    return True
                stepped = True
            elif stepped and isinstance(event, ev.Backward):
                credited = True
        return False

    @property
    def loses_a_loss(self) -> bool:
        """One of several optimizers steps, and no loss reaches it: its loss was not followed,
        unless all there is was seen."""
        losses = [event for event in self.tape if isinstance(event, ev.Backward)]
        if not (self.openings or self.unseen or any(loss.unseen for loss in losses)):
            return False
        owned: dict[str, set[str]] = {}
        stepped: set[str] = set()
        reached: set[str] = set()
        for event in self.tape:
            match event:
                case ev.Adopt():
                    owned.setdefault(event.optimizer, set()).update(event.accounts)
                case ev.Step():
                    stepped.add(event.optimizer)
                case ev.Backward():
                    reached.update(event.accounts)
        return len(stepped) > 1 and any(not owned.get(step, set()) & reached for step in stepped)

    def loses_this_loss(self, finding: Finding) -> bool:
        """An optimizer steps between the backward that a finding is about and what clears it, and
        nothing is seen to reach it: this loss may do so all the same. Not if it has a loss of its
        own, which comes too late for each of its steps."""
        too_early = self.steps_too_early
        credited = {reason.site for reason in finding.because if reason.role == "credited"}
        owned: dict[str, set[str]] = {}
        filled: set[str] = set()
        reached: set[str] = set()
        waiting = empty = False
        for event in self.tape:
            match event:
                case ev.Adopt():
                    owned.setdefault(event.optimizer, set()).update(event.accounts)
                case ev.Backward():
                    filled.update(event.accounts)
                    if event.site in credited:
                        reached.update(event.accounts)
                        waiting, empty = True, False
                case ev.Step():
                    own = owned.get(event.optimizer, set())
                    lost = not own & (filled | reached) and event.optimizer not in too_early
                    empty = empty or (waiting and lost)
                    filled -= own
                case ev.Zero():
                    filled.difference_update(event.accounts)
                    if event.site == finding.site:
                        if empty:
                            return True
                        waiting = False
        return False

    @property
    def steps_too_early(self) -> set[str]:
        """Optimizers that losses reach, and that never have anything of it when they step."""
        owned: dict[str, set[str]] = {}
        filled: set[str] = set()
        reached: set[str] = set()
        fed: set[str] = set()
        for event in self.tape:
            match event:
                case ev.Adopt():
                    owned.setdefault(event.optimizer, set()).update(event.accounts)
                case ev.Backward():
                    filled.update(event.accounts)
                    reached.update(event.accounts)
                case ev.Step() if owned.get(event.optimizer, set()) & filled:
                    fed.add(event.optimizer)
                case ev.Zero():
                    filled.difference_update(event.accounts)
        return {name for name, own in owned.items() if own & reached and name not in fed}

    def only_draws_a_schedule(self, finding: Finding) -> bool:
        """Steps with nothing but the scheduler's between them: to see its rates, not to train."""
        since: set[type[ev.Event]] = set()
        stepped = False
        for event in self.tape:
            if isinstance(event, ev.Step) and event.site == finding.site:
                if stepped and not since & {ev.Backward, ev.Batch, ev.Forward}:
                    return ev.Tick in since
                stepped = True
                since = set()
            else:
                since.add(type(event))
        return False

    @property
    def settings(self) -> dict[Hashable, bool]:
        return {key: question.answer for key, question in self.questions.items() if question.fixed}


@dataclass(slots=True)
class Program:
    """Files to check together, callers first, with what they import."""

    project: Project
    rules: tuple[Rule, ...]
    visited: set[ast.AST] = field(default_factory=set)
    coverage: Coverage = field(default_factory=Coverage)
    operations: int = 0
    whole: bool = True
    """All of it could be read: no cell of a notebook is missing."""
    relocate: Callable[[Site], Site] | None = None
    """Where a line is told to be: the cells of a notebook."""
    judged: dict[tuple[ev.Event, ...], dict[Key, Finding]] = field(default_factory=dict)

    waiting: list[TrainingFunction] = field(default_factory=list)
    """Functions that train and that no run has come to, as of the last time somebody looked."""
    begun: int = 0
    """The operations up to the beginning that is explored now."""

    @property
    def budget(self) -> int:
        training = self.project.facts.told_in
        files = self.project.files
        return TOTAL * max(1, sum(1 for path in files if training.get(path))) + OF_A_FILE * (
            len(files) - 1
        )

    def may_go_on(self, share: int = 1) -> bool:
        """Neither this beginning nor the whole program has used up what it may."""
        spent = max(self.operations - self.begun, TOTAL * self.operations // self.budget)
        return spent < share * TOTAL


@dataclass(frozen=True, slots=True)
class Root:
    """Where a rehearsal begins: a file run as a script, or a function that nobody calls."""

    path: str
    function: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    home: ast.ClassDef | None = None

    @property
    def text(self) -> str:
        if self.function is None:
            return f"{self.path}, run as a script"
        home = f"{self.home.name}." if self.home else ""
        return f"{home}{self.function.name}() of line {self.function.lineno}, which nobody calls"


def roots(program: Program) -> Iterator[list[Run]]:
    """The runs of each script, then of each training function that none of them reached."""
    if not program.project.may_train:
        return
    training = program.project.facts.told_in
    files = program.project.files.items()
    # Those with a loop of their own first: should the budget end, it ends with the others.
    for path, tree in sorted(files, key=lambda file: not training.get(file[0])):
        if program.operations > program.budget:
            program.coverage.spent = True
            return
        if not program.project.facts.does_something(path):
            continue
        if path not in program.project.imported or _is_script(tree):
            yield explore(program, Root(path))
    while True:
        root = _next_root(program)
        if root is None:
            return
        if program.operations > program.budget:
            program.coverage.spent = True
            return
        assert root.function is not None
        program.visited.add(root.function)
        yield explore(program, root)


def _is_script(tree: ast.Module) -> bool:
    """It asks whether it is run by itself."""
    return any(
        isinstance(statement, ast.If)
        and any(
            isinstance(word, ast.Name) and word.id == "__name__"
            for word in ast.walk(statement.test)
        )
        for statement in tree.body
    )


def _next_root(program: Program) -> Root | None:
    """A function that trains and was not come to; those that others of them call come later."""
    waiting = program.waiting = [
        one
        for one in program.waiting or program.project.facts.functions_that_train
        if one.node not in program.visited and one.file in program.project.files
    ]
    if len(waiting) > MANY:
        # In a program this large, most are so called by chance: something else has the same name.
        waiting = [function for function in waiting if function.by_itself]
    names = {function.node.name for function in waiting}
    others = {
        function.node: (names & function.refers) - {function.node.name} for function in waiting
    }
    waiting = [function for function in waiting if function.by_itself or others[function.node]]
    called = {word for function in waiting for word in others[function.node]}
    for one in waiting:
        if one.node.name not in called:
            break
    else:
        if not waiting:
            return None
        one = waiting[0]
    return Root(one.file, one.node, one.home)


def explore(program: Program, root: Root) -> list[Run]:
    """Runs one beginning along several plans."""
    return _Exploration(program, root).runs


class _Exploration:
    """The plans of one beginning, the nearest to its first run first.

    Most settings change nothing that matters. So they are tried the other way together first, and
    one by one only where that made a difference.
    """

    def __init__(self, program: Program, root: Root) -> None:
        self.program = program
        self.runs: list[Run] = []
        self.tried: set[Hashable] = set()
        self.waiting: list[Plan] = [Plan()]
        self.telling: list[Hashable] = []
        """Settings that make a difference by themselves."""
        self.seen: set[Hashable] = set()
        """Settings that were tried the other way, or are about to be."""
        self.splits = 0
        self.blamed = 0
        """Settings that were left out of a group since nothing trained with it."""
        self.groups: dict[Hashable, tuple[Run, dict[Hashable, Mode]]] = {}
        """By plan: the run whose answers of chance it has the other way, all at once."""
        self.base: Run | None = None
        """The run that the others are compared with."""
        program.begun = program.operations
        made = nothing_new = 0
        while self.waiting and made < MOST_RUNS and program.may_go_on():
            plan = self.waiting.pop(0)
            name = _name_of(plan)
            if name in self.tried:
                continue
            self.tried.add(name)
            run = rehearse(program, root, plan)
            longer = _longer(run)
            if longer is not None and name not in self.groups:
                # Too short to see a window: as if it had not been.
                self.waiting.insert(0, longer)
                continue
            if not self._tells_nothing(run):
                made += 1
                nothing_new = 0 if self._is_news(run) else nothing_new + 1
            if nothing_new and not any(map(_trains, self.runs)):
                break
            if name in self.groups:
                self._go_on_from_group(run, *self.groups[name])
            else:
                self.runs.append(run)
                self._go_on_from(run)
            if nothing_new >= PATIENCE:
                # What was found may hang on a setting that was not tried the other way yet.
                suspected = any(map(_tells, self.runs))
                self.waiting = [plan for plan in self.waiting if suspected and plan.settings]
        tried = {setting for run in self.runs for setting in run.settings.items()}
        for run in self.runs:
            run.settled = all((key, not answer) in tried for key, answer in run.settings.items())
        _verify(program, root, self.runs, self.tried)

    def _is_news(self, run: Run) -> bool:
        """It trains where no run did before, or something is told that was not.

        As long as a loop has not shown what it does, whatever happens otherwise is news.
        """
        if any(_alike(run, earlier) for earlier in self.runs):
            return False
        if not any(map(_trains, self.runs)) or not self.program.coverage.have_shown(run.loops):
            return True
        places, told = _where_it_trains(run), _told(run)
        for earlier in self.runs:
            places -= _where_it_trains(earlier)
            told -= _told(earlier)
        return bool(places or told)

    def _tells_nothing(self, run: Run) -> bool:
        """A group of settings of which one ends all training: the others were hardly asked for."""
        return self.base is not None and _trains(self.base) and not _trains(run)

    def _go_on_from(self, run: Run) -> None:
        if run.numbered and run.plan.window == 1:
            # Whatever goes wrong in windows of one does so in longer ones, too.
            longer = _epochs(WINDOW)[0]
            self.waiting.append(run.plan.but(window=WINDOW, rounds=longer, first=run.settings))
            return
        if self.base is None or (run.spends and not self.base.spends):
            self.base = run
            self.telling.clear()
            self.seen = set(run.plan.settings)
        flipped = [key for key in run.plan.settings if key not in self.base.plan.settings]
        different = not _alike(run, self.base)
        if different and len(flipped) == 1:
            self.telling += flipped
            self.waiting += [self._flip(run, [key]) for key in self.telling if key not in flipped]
        elif len(flipped) > 1 and self.blamed < MOST_BLAMED and self._tells_nothing(run):
            self.blamed += 1
            # Where nothing trains, nothing is told of the others: all but the one that is to blame.
            to_blame = next((key for key in reversed(run.settings) if key in flipped), flipped[-1])
            others = [key for key in flipped if key != to_blame]
            self.waiting.append(self._flip(self.base, others))
        elif different and flipped and not run.plan.chance and self._worth_splitting(run):
            half = len(flipped) // 2
            self.waiting += [
                self._flip(self.base, some) for some in (flipped[:half], flipped[half:])
            ]
        new = [key for key in run.settings if key not in self.seen]
        if new and (run.spends or run is self.base or not different):
            self.seen.update(new)
            self.waiting.append(self._flip(run, new))
        if run.spends or run is self.base:
            self.waiting.extend(_scenarios(run))
            self._try_together(run, dict(_other_answers(run)))
        self.waiting.sort(key=self._distance)

    def _try_together(self, run: Run, answers: dict[Hashable, Mode]) -> None:
        """Most answers of chance change nothing that matters, either."""
        plan = run.plan.but(chance={**run.plan.chance, **answers})
        if len(answers) > 1:
            self.groups[_name_of(plan)] = (run, answers)
        if answers:
            self.waiting.append(plan)

    def _go_on_from_group(self, other: Run, run: Run, answers: dict[Hashable, Mode]) -> None:
        """If all of them together changed nothing, none does that was asked for."""
        left = {key: mode for key, mode in answers.items() if key not in other.questions}
        if _alike(other, run) and len(left) < len(answers):
            self._try_together(run, left)
        else:
            for key, mode in answers.items():
                self._try_together(run, {key: mode})
        self.waiting.sort(key=self._distance)

    def _distance(self, plan: Plan) -> tuple[int, int]:
        """How far a plan is from the first one; what is rehearsed on purpose comes first."""
        if _name_of(plan) in self.groups:
            return (len(plan.settings) + 1, 1)
        return _distance(plan)

    def _worth_splitting(self, run: Run) -> bool:
        """One of several settings does something to a finding; or nothing was split yet."""
        assert self.base is not None
        self.splits += 1
        return self.splits <= FREE_SPLITS or run.findings.keys() != self.base.findings.keys()

    def _flip(self, run: Run, settings: Sequence[Hashable]) -> Plan:
        """A run's plan with some settings the other way."""
        flips = {key: not self._answer(key) for key in settings}
        return run.plan.but(settings={**run.plan.settings, **flips})

    def _answer(self, key: Hashable) -> bool:
        """What was answered where nothing was planned."""
        return next(
            run.settings[key]
            for run in self.runs
            if key in run.settings and key not in run.plan.settings
        )


def _trains(run: Run) -> bool:
    """More happens than that weights are set, as when they are loaded by hand."""
    return any(isinstance(event, (ev.Backward, ev.Step)) for event in run.tape)


def _where_it_trains(run: Run) -> set[tuple[str, int]]:
    trains = (
        event.site for event in run.tape if isinstance(event, (ev.Backward, ev.Step, ev.Move))
    )
    return {(site.file, site.line) for site in trains}


def _told(run: Run) -> set[Key]:
    return {key for key, finding in run.findings.items() if may_speak(run, finding)}


def _tells(run: Run) -> bool:
    return any(finding.severity is not Severity.INFO for finding in run.findings.values())


def _alike(run: Run, other: Run) -> bool:
    """The same happened in both, as far as the rules can see."""
    return run.findings is other.findings and (run.doubts, run.unseen, run.ended) == (
        other.doubts,
        other.unseen,
        other.ended,
    )


def _verify(program: Program, root: Root, runs: list[Run], tried: set[Hashable]) -> None:
    """What was found has to hold whatever chance answers: tries the answers that were left out."""
    suspects: dict[Key, list[Run]] = {}
    for run in runs:
        for key, finding in run.findings.items():
            if finding.severity is not Severity.INFO and may_speak(run, finding):
                suspects.setdefault(key, []).append(run)
    for key, having in suspects.items():
        for run in compared(having, runs, key[0])[:MOST_TRIALS]:
            if not run.verified:
                _try_chances(program, root, run, key, runs, tried)
            if not refuted(run, key, runs):
                if key[0] in FROM_ABSENCE:  # what is missing under one setting only is not told
                    _settle(program, root, run, runs, tried)
                else:
                    _tell_setting(program, root, run, key, runs, tried)
                break


def _settle(program: Program, root: Root, run: Run, runs: list[Run], tried: set[Hashable]) -> None:
    """Tries a run's settings the other way that no run has so: one that lies in a branch of
    another was not asked for while that one was changed as well."""
    while not run.settled:
        answered = {setting for other in runs for setting in other.settings.items()}
        left = {
            name: not answer
            for name, answer in run.settings.items()
            if (name, not answer) not in answered
        }
        plan = run.plan.but(settings={**run.settings, **left})
        if left and (_name_of(plan) in tried or not _try(program, root, plan, runs, tried)):
            return
        run.settled = not left


def _tell_setting(
    program: Program, root: Root, run: Run, key: Key, runs: list[Run], tried: set[Hashable]
) -> None:
    """Where other settings make a finding go away: looks for the one that does so by itself.

    Half of the suspects are changed at once, then half of those that are left.
    """
    suspects = _suspected(run, key, runs)
    for _ in range(MOST_FLIPS):
        some = suspects[: (len(suspects) + 1) // 2]
        flips = {name: not run.settings[name] for name in some}
        plan = run.plan.but(settings={**run.settings, **flips})
        if not some or len(runs) >= MOST_RUNS + MOST_VERIFIED or not program.may_go_on(2):
            return
        tried.add(_name_of(plan))
        other = rehearse(program, root, plan)
        runs.append(other)
        if not denies(other, run, key):
            suspects = suspects[len(some) :]
        elif len(some) == 1:
            run.telling[key] = some[0]
            return
        else:
            suspects = some


def _suspected(run: Run, key: Key, runs: list[Run]) -> list[Hashable]:
    """Settings that no run without the finding shares; first those that all have otherwise."""
    against = without(run, key, runs)
    if not against:
        return []
    found = [
        name
        for name, answer in run.settings.items()
        if all(other.settings.get(name) != answer for other in against)
    ]
    found.sort(key=lambda name: sum(name not in other.settings for other in against))
    return by_nearness(found, run, key, runs)


def by_nearness(names: list[Hashable], run: Run, key: Key, runs: list[Run]) -> list[Hashable]:
    """Settings, the likeliest cause of a finding first."""
    return sorted(names, key=_likelihood(run, key, runs))


def nearest(names: list[Hashable], run: Run, key: Key, runs: list[Run]) -> list[Hashable]:
    """The likeliest of them; several, where none is likelier than the others."""
    order = _likelihood(run, key, runs)
    first = min(map(order, names), default=None)
    return [name for name in names if order(name) == first]


def _likelihood(run: Run, key: Key, runs: list[Run]) -> Callable[[Hashable], tuple[bool, bool]]:
    """How far a setting is from being the cause of a finding.

    One that a run with the finding has otherwise is none, unless it is one of several. One in whose
    branch a line of the finding lies is likelier than one that was asked somewhere else.
    """
    near = {name for line in lines_of(run.findings[key]) for name in run.under.get(line, ())}
    having = [
        other for other in runs if key in other.findings and same_scenario(run, other, key[0])
    ]

    def order(name: Hashable) -> tuple[bool, bool]:
        answer = run.settings[name]
        either_way = any(one.settings.get(name, answer) != answer for one in having)
        return either_way, name not in near

    return order


def lines_of(finding: Finding) -> Iterator[tuple[str, int]]:
    """The line of a finding, and those that it names as its reasons."""
    yield finding.site.file, finding.site.line
    for reason in finding.because:
        yield reason.site.file, reason.site.line


def without(run: Run, key: Key, runs: list[Run]) -> list[Run]:
    """The runs in which the same happens on purpose, and a finding is not made."""
    return [
        other for other in runs if denies(other, run, key) and same_scenario(run, other, key[0])
    ]


def may_speak(run: Run, finding: Finding) -> bool:
    """Whether doubts about a run leave a rule anything to say of it."""
    rule = finding.rule
    if run.openings & CLOSED.get(rule, frozenset()) and not _names_what_cleared_it(finding):
        return False
    if rule == "GK102" and (run.loses_a_loss or run.loses_this_loss(finding)):
        return False  # perhaps it was that loss which seems to be thrown away
    if rule == "GK103" and run.only_draws_a_schedule(finding):
        return False
    if rule == "GK107" and (run.passes_by_a_step or (run.partial and not run.steps)):
        return False  # more rounds, other numbers or other callers may come to it
    return not run.doubts or rule in WITHOUT_OWNERS


def _names_what_cleared_it(finding: Finding) -> bool:
    """A step has nothing to apply since something was zeroed: that is not argued from absence."""
    cleared = any(reason.role == "zeroed" for reason in finding.because)
    return finding.rule == "GK103" and cleared


def _try_chances(
    program: Program, root: Root, run: Run, key: Key, runs: list[Run], tried: set[Hashable]
) -> None:
    """Tries the other answers of chance, until one of them refutes a finding."""
    for plan in _by_window(run):
        if refuted(run, key, runs) or not _try(program, root, plan, runs, tried):
            return
    flips = {
        name: mode
        for name, question in run.questions.items()
        if not question.fixed and name not in run.plan.chance
        for mode in _flips(question)
    }
    waiting = [list(flips)]
    while waiting:
        group = waiting.pop(0)
        plan = run.plan.but(chance={**run.plan.chance, **{name: flips[name] for name in group}})
        if refuted(run, key, runs):
            return
        if len(group) == 1:
            if not _try(program, root, plan, runs, tried):
                return
        elif group:
            waiting += _left_to_try(program, root, run, plan, group)
    run.verified = True


def _try(program: Program, root: Root, plan: Plan, runs: list[Run], tried: set[Hashable]) -> bool:
    """One more run, unless it was made before; False: there may be no more."""
    name = _name_of(plan)
    if name in tried:
        return True
    if len(runs) >= MOST_RUNS + MOST_VERIFIED or not program.may_go_on(2):
        return False
    tried.add(name)
    runs.append(rehearse(program, root, plan))
    return True


def _left_to_try(
    program: Program, root: Root, run: Run, plan: Plan, group: list[Hashable]
) -> list[list[Hashable]]:
    """Many answers of chance the other way at once: if that leaves all findings as they are, so
    does each of them by itself that was asked for. What it does not tell is tried in two halves.
    """
    half = len(group) // 2
    halves = [group[:half], group[half:]]
    if not program.may_go_on(2):
        return halves
    other = rehearse(program, root, plan)
    if not run.findings.keys() <= other.findings.keys():
        return halves
    rest = [key for key in group if key not in other.questions]
    return [rest] if len(rest) < len(group) else halves


def refuted(run: Run, key: Key, runs: list[Run]) -> bool:
    """Under the same setting, chance can also have it that the line does no harm."""
    return any(denies(other, run, key) and same_setting(run, other, key[0]) for other in runs)


def denies(other: Run, run: Run, key: Key) -> bool:
    """The other run came by the line of a finding, and nothing was wrong with it there.

    One that leaves its loop at the first step shows nothing of what comes after a step.
    """
    return (
        key not in other.findings
        and key[1:] in other.lines
        and other.spends
        and (other.goes_on or not run.goes_on)
    )


def compared(having: list[Run], runs: list[Run], rule: str) -> list[Run]:
    """Those beside which settings were tried the other way, or all where there are none.

    Windows of one micro-batch and of several are two scenarios, and settings are changed in one:
    the runs of the other tell nothing of them.
    """
    found = [
        run
        for run in having
        if any(same_scenario(run, other, rule) and other.settings != run.settings for other in runs)
    ]
    return found or having


def same_setting(run: Run, other: Run, rule: str) -> bool:
    """The two differ in what chance answered, and in nothing that was chosen."""
    return all(
        other.settings.get(key, answer) == answer for key, answer in run.settings.items()
    ) and same_scenario(run, other, rule)


def same_scenario(run: Run, other: Run, rule: str) -> bool:
    """What is rehearsed on purpose happens in both."""
    return (
        other.plan.window == run.plan.window
        and other.plan.fault == run.plan.fault
        and _on_purpose(run, rule) == _on_purpose(other, rule)
    )


def _on_purpose(run: Run, rule: str) -> set[tuple[Hashable, Mode]]:
    """What happens once, or every so often: scenarios, not chance.

    Beside a window that is counted otherwise, what happens every so often is chance, too. And for
    what is left at the end of a loop, so is the round in which a counter comes to its number.
    """
    chance = BY_CHANCE | {"periodic"} if run.plan.window > 1 else BY_CHANCE
    return {
        (key, mode)
        for key, mode in run.plan.chance.items()
        if mode not in chance and not _by_the_way(run, key, rule)
    }


def _by_the_way(run: Run, key: Hashable, rule: str) -> bool:
    """What happens once is not what a rule about ends of windows, or checkpoints, speaks of."""
    question = run.questions.get(key)
    if question is None:
        return False
    if isinstance(question.condition.left, Finite):
        return rule in OF_TAILS or rule in OF_RHYTHM
    return question.once and (rule in OF_TAILS or rule in OF_EVERY_ROUND)


def _by_window(run: Run) -> Iterator[Plan]:
    """The plans that differ from a run's in where windows end."""
    plan = run.plan
    if plan.window == 1:
        return
    for rounds in _epochs(plan.window):
        yield plan.but(rounds=rounds)
    for key, question in run.questions.items():
        if question.periodic and not question.fixed and key not in plan.chance:
            # It may hold just when they do.
            aligned: dict[Hashable, Mode] = {**plan.chance, key: "periodic"}
            yield plan.but(chance=aligned, rounds=3 * plan.window)


def _epochs(window: int) -> tuple[int, int, int]:
    """Lengths of an epoch that end within a window and with it, wherever counting begins."""
    return (2 * window + (3 if window == 2 else 2), 2 * window + 1, 3 * window)


def _flips(question: Question) -> Iterator[Mode]:
    if question.rare:
        yield "no"
    elif question.bound:
        # A counter passes its bound when the time has come, and not before there was training.
        yield "later yes" if question.rises else "later no"
    elif not question.once:
        yield "no" if question.answer else "yes"


def _longer(run: Run) -> Plan | None:
    """A plan with room for the windows that the source itself counts, or for the loops that leave
    out the first or last batches."""
    if run.short_of and run.plan.rounds + run.short_of <= MOST_ROUNDS:
        return run.plan.but(rounds=run.plan.rounds + run.short_of)
    rounds = _epochs(run.period)[0]
    if run.period == 1 or run.plan.rounds >= min(_epochs(run.period)):
        return None
    return run.plan.but(window=run.period, rounds=rounds)


def _name_of(plan: Plan) -> Hashable:
    return (
        frozenset(plan.settings.items()),
        frozenset(plan.chance.items()),
        plan.window,
        plan.rounds,
        plan.fault,
    )


def _distance(plan: Plan) -> tuple[int, int]:
    """How far a plan is from the first one. What is rehearsed on purpose comes before the rest."""
    extra = plan.fault is not None
    settings = 1 if len(plan.settings) > 2 else len(plan.settings)
    scenario = extra or any(mode not in ("yes", "no") for mode in plan.chance.values())
    return (settings + len(plan.chance) + extra, -1 if scenario else len(plan.chance))


def _scenarios(run: Run) -> Iterator[Plan]:
    """The plans in which something happens once, or every so often, that did not in a run."""
    plan = run.plan
    for key, question in _of_chance(run):
        if question.rare:
            continue
        if question.once:
            yield plan.but(chance={**plan.chance, key: "once"})
        elif question.periodic:
            yield plan.but(chance={**plan.chance, key: "periodic"})
        if isinstance(question.condition.left, Finite) and question.times > 1:
            mode: Mode = "once not" if question.answer else "once"
            yield plan.but(chance={**plan.chance, key: mode})
    for fault in run.faults:
        if plan.fault is None:
            yield plan.but(fault=fault)


def _other_answers(run: Run) -> Iterator[tuple[Hashable, Mode]]:
    """What a run's questions of chance were not answered."""
    for key, question in _of_chance(run):
        if question.rare:
            yield key, "no"
        elif not question.once:
            yield key, "no" if question.answer else "yes"


def _of_chance(run: Run) -> Iterator[tuple[Hashable, Question]]:
    for key, question in run.questions.items():
        if not question.fixed and key not in run.plan.chance:
            yield key, question


def rehearse(program: Program, root: Root, plan: Plan) -> Run:
    """One run along a plan, judged."""
    for _ in range(8):
        machine = Machine(
            plan, StandardLibraries(), program.project, program.project.facts, OPERATIONS
        )
        try:
            return _rehearse(program, root, plan, machine)
        except LoudError as loud:
            program.project.facts.loud.update(id(node) for node in loud.nodes)
        finally:
            program.operations += machine.operations
            machine.let_go()
    return Run(plan, {}, doubts=("branches that cannot be told apart",), ended=False)


def _rehearse(program: Program, root: Root, plan: Plan, m: Machine) -> Run:
    ended = True
    try:
        if root.function is None:
            m.run_module(program.project.files[root.path], root.path, "__main__")
        else:
            _start(m, program, root, root.function)
    except (ProgramEndsError, RaisedError):
        pass
    except BudgetSpentError:
        m.doubt(TOO_LARGE)
        program.coverage.spent = True
        ended = False
    except RecursionError:
        m.doubt(TOO_DEEP)
        ended = False
    tape = m.state(Tape)
    spends = any(note.kind in (ev.Step, ev.Move) for note in tape.notes)
    unseen = tuple(tape.unseen)
    early = not ended or tape.cut
    events = close(m, tape, Site(root.path, 1), early=early)
    program.visited |= m.visited
    if program.relocate is not None:
        events = [replace(event, site=program.relocate(event.site)) for event in events]
    seen_to_the_end = ended and program.whole
    run = Run(plan, m.questions, events, {}, tuple(m.doubts), unseen)
    run.openings = openings(tape) | _from_callers(root, tape)
    run.spends, run.ended = spends, seen_to_the_end
    run.period, run.short_of = m.period, m.short_of
    run.loops = tuple(tape.loops)
    run.partial = root.function is not None and program.project.facts.steps_somewhere
    run.lines = frozenset((event.site.file, event.site.line) for event in events)
    run.under = _by_line(program, m.reached)
    run.numbered = bool(m.numbers)
    run.faults = tuple(m.faults)
    unsure = m.cut_short or bool(m.questions)
    run.passes_by_a_step = unsure and bool(m.closed_gates - m.opened_gates)
    run.provided, run.missed = m.provided, frozenset(m.missed)
    program.coverage.add(
        root.text,
        tape,
        m.questions.values(),
        window=plan.window,
        ended=ended,
        doubts=m.doubts,
    )
    run.findings = _judged(program, tuple(events))
    return run


def _from_callers(root: Root, tape: Tape) -> frozenset[str]:
    """What an unseen caller hands in may be made of parameters that were there before."""
    function = root.function
    if function is None:
        return frozenset()
    own = root.home is not None and not any(map(_is_static, function.decorator_list))
    spec = function.args
    given = len(spec.posonlyargs) + len(spec.args) + len(spec.kwonlyargs) - own
    lines = range(function.lineno, (function.end_lineno or function.lineno) + 1)
    before = any(
        owner.site.file != root.path or owner.site.line not in lines for owner in tape.owners
    )
    return frozenset({"caller"}) if given > 0 and before else frozenset()


def _is_static(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id == "staticmethod"


def _by_line(
    program: Program, reached: dict[Site, tuple[Hashable, ...]]
) -> dict[tuple[str, int], tuple[Hashable, ...]]:
    found: dict[tuple[str, int], tuple[Hashable, ...]] = {}
    for site, settings in reached.items():
        if settings:
            there = site if program.relocate is None else program.relocate(site)
            found[(there.file, there.line)] = settings
    return found


def _judged(program: Program, tape: tuple[ev.Event, ...]) -> dict[Key, Finding]:
    """What the rules say of a tape; runs that leave the same one are judged once."""
    found = program.judged.get(tape)
    if found is None:
        found = program.judged[tape] = {
            (finding.rule, finding.site.file, finding.site.line): finding
            for finding in Findings(audit(tape, program.rules))
        }
    return found


def _start(
    m: Machine,
    program: Program,
    root: Root,
    node: ast.FunctionDef | ast.AsyncFunctionDef,
) -> None:
    """Calls a function as its unknown caller would, with arguments that nobody knows."""
    home = root.home
    frame = m.frame = _prepared(m, program, root.path)
    if home is None:
        function = _find_function(m, frame, node)
        if function is None:
            outer = m.define(node)
            function = outer
        _call_each_batch(m, program, node, function)
        return
    cls = _find_class(m, frame, program.project.files[root.path], home)
    if cls is None:
        return
    start = cls.member("__init__")
    given = _arguments(m, start)[1:] if isinstance(start, Function) else []
    instance = m.make_instance(cls, Call(m, given))
    if isinstance(instance, Instance) and isinstance(instance.native, Optimizer):
        return  # how an optimizer moves what it owns is its own affair
    if isinstance(instance, Instance):
        instance.invented = True
        m.provided = frozenset(
            name for name, value in instance.attributes.items() if value.is_none(m) is not True
        )
    if isinstance(instance, Instance) and m.libraries.drive(m, instance, node.name):
        return
    member = cls.member(node.name)
    if isinstance(member, StaticMethod):
        _call_each_batch(m, program, node, member.function)
    elif isinstance(member, Function):

        def call() -> None:
            m.run_function(member, Call(m, [instance, *_arguments(m, member)[1:]]))

        built = len(m.state(Tape).owners)
        call()
        if not any(owner.known for owner in m.state(Tape).owners[built:]):
            _again(m, program, node, call)
    else:
        instance.attribute(m, node.name).call(Call(m))


def _call_each_batch(m: Machine, program: Program, node: ast.AST, function: Function) -> None:
    """Calls a function with arguments that nobody knows, and again if it trains on one batch."""

    def call() -> None:
        function.call(Call(m, _arguments(m, function)))

    built = len(m.state(Tape).owners)
    call()
    new = m.state(Tape).owners[built:]
    if new and not any(owner.known for owner in new):
        # With an optimizer of the file, the file would call it; with its own, it is a trial.
        _again(m, program, node, call)


def _again(m: Machine, program: Program, node: ast.AST, call: Callable[[], object]) -> None:
    """A function that takes one step is called for every batch, by somebody who is not seen.

    Not where it is handed the optimizer: then its caller may do the rest. A base class that sets
    one up for its subclasses leaves the rest to them, where they zero or step at all.
    """
    tape = m.state(Tape)
    facts = program.project.facts
    counts = any(question.periodic for question in m.questions.values())
    own = all(owner.known or owner.inherited for owner in tape.owners)
    nobody_steps = not facts.steps_somewhere and own
    repeats = tape.steps or ((counts or nobody_steps) and tape.backwards)
    if node.name in facts.loop_names or not repeats:  # type: ignore[attr-defined]
        return
    nobody_zeroes = own and not any("zero_grad" in uses for uses in facts.uses.values())
    stepped = {note.owner for note in tape.notes if note.kind is ev.Step and note.owner is not None}
    if not all(_is_zeroed(tape, step) for step in stepped) and _others_zero(m, program, node):
        return
    if not tape.backwards and any(
        facts.words_of(function) & CREDITS
        for function, _ in facts.functions
        if function not in m.visited
    ):
        return
    if not all(owner.known or _is_zeroed(tape, owner) or nobody_zeroes for owner in tape.owners):
        return
    for _ in range(3 * WINDOW if counts else 2):
        tape.note(m, ev.Batch, source="calls", site=m.site(node))
        m.calls += 1
        call()


def _others_zero(m: Machine, program: Program, node: ast.AST) -> bool:
    """What was not come to zeroes: another method of the class, or somebody who calls this one."""
    facts = program.project.facts
    homes = {home for function, home in facts.functions if function is node and home is not None}
    name: str = node.name  # type: ignore[attr-defined]
    for function, home in facts.functions:
        if function in m.visited:
            continue
        found = facts.words_of(function)
        if "zero_grad" in found and (home in homes or name in found):
            return True
    return False


def _is_zeroed(tape: Tape, owner: Owner) -> bool:
    """What is stepped here is zeroed here."""
    return any(note.kind is ev.Zero and owner in note.targets for note in tape.notes)


def _prepared(m: Machine, program: Program, path: str) -> Frame:
    """Definitions and constants of the file: what it does by itself was rehearsed before."""
    facts = program.project.facts
    waiting = facts.can_wait(path)
    quiet: list[ast.stmt] = [
        statement
        for statement in program.project.files[path].body
        if (isinstance(statement, DEFINITIONS) and waiting.get(statement.name) is not statement)
        or isinstance(statement, (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign))
        or (isinstance(statement, (ast.Try, ast.If)) and not facts.is_loud(statement))
    ]
    frame = m.module_frame(path, "module")
    frame.waiting = dict(waiting)
    m.run_in(frame, quiet)
    return frame


def _arguments(m: Machine, function: Function) -> list[Value]:
    """What an unknown caller hands in; `start=0` stays what it is."""
    spec = function.code.args
    names = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
    defaults = dict(zip(reversed(names), reversed(function.defaults), strict=False))
    found: list[Value] = []
    for name in names:
        default = defaults.get(name)
        if isinstance(default, Constant) and type(default.value) is int and default.value == 0:
            found.append(default)
        else:
            found.append(m.parameter(function, name))
    return found


def _defined(m: Machine, frame: Frame, name: str) -> Value | None:
    return frame.names.get(name) or m.define_now(frame, name)


def _find_function(m: Machine, frame: Frame, node: ast.AST) -> Function | None:
    found = _defined(m, frame, node.name)  # type: ignore[attr-defined]
    while found is not None and not isinstance(found, Function):
        found = getattr(found, "function", None)
    return found if found is not None and found.code is node else None


def _find_class(m: Machine, frame: Frame, tree: ast.Module, node: ast.ClassDef) -> Class | None:
    """A class of a file, which may lie in another one or in a function."""
    found = _defined(m, frame, node.name)
    if not isinstance(found, Class) or found.code is not node:
        around = _definitions_around(tree, node)
        outer = around[-1] if around else None
        if isinstance(outer, ast.ClassDef):
            holder = _find_class(m, frame, tree, outer)
            found = holder.members.get(node.name) if holder is not None else None
        elif outer is not None:
            found = m.define_class(node)
    return found if isinstance(found, Class) else None


def _definitions_around(tree: ast.Module, node: ast.ClassDef) -> tuple[ast.AST, ...]:
    """The functions and classes that a class lies in, outermost first."""
    waiting: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(tree, ())]
    while waiting:
        one, around = waiting.pop()
        if one is node:
            return around
        inner = (*around, one) if isinstance(one, DEFINITIONS) else around
        waiting.extend((child, inner) for child in ast.iter_child_nodes(one))
    return ()
