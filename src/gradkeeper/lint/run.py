"""One run of a program along a plan: what was answered, what happened, what the rules say of it.

Which runs there are is for explore.py to say, how one begins for roots.py.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

from gradkeeper.lint.closed_world import openings
from gradkeeper.lint.coverage import TOO_LARGE, Coverage
from gradkeeper.lint.imports import Project
from gradkeeper.lint.interpreter.machine import Machine
from gradkeeper.lint.interpreter.plan import Plan, Question
from gradkeeper.lint.interpreter.state import (
    BudgetSpentError,
    LoudError,
    ProgramEndsError,
    RaisedError,
)
from gradkeeper.lint.interpreter.survey import TrainingFunction
from gradkeeper.lint.libraries.finished_tape import close
from gradkeeper.lint.libraries.recording import RunTape
from gradkeeper.lint.libraries.registry import StandardLibraries
from gradkeeper.lint.libraries.tensors import Finite
from gradkeeper.lint.parsing import TOO_DEEP
from gradkeeper.lint.roots import Root, start
from gradkeeper.model import events as ev
from gradkeeper.model.auditing import audit
from gradkeeper.model.finding import Finding, Findings
from gradkeeper.model.rule import Rule
from gradkeeper.model.site import Site

OPERATIONS = 160_000
"""What one run may cost at most: one that has begun is worth more than another one."""
TOTAL = 40_000
"""What the runs of a file may cost together before no further one begins."""
MOST_STARTS = 24
"""A run begins again for each branch that turns out to do something."""
MOST_SCRIPTS = 4
OF_A_FILE = 10_000
"""What a file more, in which nothing trains, may cost."""
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
    """Where its world is open: see closed_world.py."""
    spends: bool = False
    ended: bool = True
    period: int = 1
    short_of: int = 0
    numbered: bool = False
    widened: tuple[str, ...] = ()
    """Lengths of windows that the program sets to 1, and that were more in this run."""
    counts_samples: bool = False
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
    doubted_under: frozenset[Hashable] = frozenset()
    """Settings in whose branches something was done that leaves the rules little to say."""
    settings: dict[Hashable, bool] = field(init=False)
    """Those that it asked for, as they were answered."""

    def __post_init__(self) -> None:
        asked = self.questions.items()
        self.settings = {key: question.answer for key, question in asked if question.fixed}

    @property
    def steps(self) -> int:
        return sum(isinstance(event, (ev.Step, ev.Move)) for event in self.tape)

    @property
    def where_it_steps(self) -> set[tuple[str, int]]:
        steps = (event for event in self.tape if isinstance(event, (ev.Step, ev.Move)))
        return {(step.site.file, step.site.line) for step in steps}

    @property
    def goes_on(self) -> bool:
        """An optimizer comes to its second step, with a backward between the two; or the next one
        that the same line has built does so."""
        steps = any(isinstance(event, ev.Step) for event in self.tape)
        built: dict[str, Site] = {}
        credited: dict[Hashable, bool] = {}
        for event in self.tape:
            if isinstance(event, ev.Adopt):
                built[event.optimizer] = event.site
            elif isinstance(event, ev.Step if steps else ev.Move):
                name = event.optimizer if isinstance(event, ev.Step) else ""
                names = (name, (built.get(name, name), event.site))
                if any(map(credited.get, names)):
                    return True
                credited.update(dict.fromkeys(names, False))
            elif isinstance(event, ev.Backward):
                credited = dict.fromkeys(credited, True)
        return False


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
    begun_in: set[ast.AST] = field(default_factory=set)
    """Functions in which a rehearsal has begun."""
    begun: int = 0
    """The operations up to the beginning that is explored now."""

    @property
    def budget(self) -> int:
        project, files = self.project, self.project.files
        trains = sum(1 for path in files if project.facts.told_in.get(path))
        # Several scripts may come to the loops of one file.
        scripts = sum(1 for path in files if path not in project.imported)
        return TOTAL * max(1, trains, min(scripts, MOST_SCRIPTS)) + OF_A_FILE * (len(files) - 1)

    def may_go_on(self, share: int = 1) -> bool:
        """Neither this beginning nor the whole program has used up what it may."""
        spent = max(self.operations - self.begun, TOTAL * self.operations // self.budget)
        return spent < share * TOTAL


def rehearse(program: Program, root: Root, plan: Plan) -> Run:
    """One run along a plan, judged."""
    for _ in range(MOST_STARTS):
        machine = Machine(
            plan, StandardLibraries(), program.project, program.project.facts, OPERATIONS
        )
        try:
            return _rehearse(program, root, plan, machine)
        except LoudError as loud:
            program.project.facts.loud.update(id(node) for node in loud.nodes)
            # Learned once for all runs: the next ones need not do with less.
            program.begun += machine.operations
        finally:
            program.operations += machine.operations
            machine.let_go()
    return Run(plan, {}, doubts=("branches that cannot be told apart",), ended=False)


def _rehearse(program: Program, root: Root, plan: Plan, m: Machine) -> Run:
    ended = True
    try:
        start(m, program.project, root)
    except (ProgramEndsError, RaisedError):
        pass
    except BudgetSpentError:
        m.doubt(TOO_LARGE)
        program.coverage.spent = True
        ended = False
    except RecursionError:
        m.doubt(TOO_DEEP)
        ended = False
    tape = m.state(RunTape)
    spends = any(note.kind in (ev.Step, ev.Move) for note in tape.notes)
    unseen = tuple(tape.unseen)
    early = not ended or tape.cut
    events = close(m, tape, Site(root.path, 1), early=early)
    program.visited |= m.visited
    if program.relocate is not None:
        events = [replace(event, site=program.relocate(event.site)) for event in events]
    seen_to_the_end = ended and program.whole
    run = Run(plan, m.questions, events, {}, tuple(m.doubts), unseen)
    run.openings = openings(tape, root)
    run.spends, run.ended = spends, seen_to_the_end
    run.period, run.short_of = m.period, m.short_of
    run.loops = tuple(tape.loops)
    run.partial = root.function is not None and program.project.facts.steps_outside(tape.loops)
    run.lines = frozenset((event.site.file, event.site.line) for event in events)
    run.under = _by_line(program, m.reached)
    run.doubted_under = frozenset(m.doubted_under)
    run.numbered, run.counts_samples = bool(m.numbers), m.counts_samples
    if plan.window > 1:
        run.widened = tuple(name for key, name in m.widened.items() if key in m.numbers)
    run.faults = tuple(m.faults)
    asked = any(not isinstance(q.condition.left, Finite) for q in m.questions.values())
    unsure = m.cut_short or asked  # a batch that is left out for its numbers comes to no step more
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
