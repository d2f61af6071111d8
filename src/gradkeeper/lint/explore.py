"""Which runs to make: where to begin, which answers to try, and when to stop."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Sequence

from gradkeeper.lint.certainty import by_nearness, compared, denies, refuted, without
from gradkeeper.lint.closed_world import FROM_ABSENCE
from gradkeeper.lint.coverage import says_backward
from gradkeeper.lint.doubts import may_speak
from gradkeeper.lint.interpreter.plan import ONCE_AT, Mode, Plan, Question
from gradkeeper.lint.interpreter.syntax import LOOPS
from gradkeeper.lint.libraries.tensors import Finite
from gradkeeper.lint.roots import WINDOW, Root
from gradkeeper.lint.run import Key, Program, Run, rehearse
from gradkeeper.model import events as ev
from gradkeeper.model.finding import Severity

MOST_RUNS = 8
PATIENCE = 2
"""Runs one after the other that brought nothing new."""
FREE_SPLITS = 1
"""Groups of settings that are taken apart though no finding depends on them."""
MOST_TRIALS = 3
"""Runs with a finding that are tried, until one stands."""
MOST_VERIFIED = 24
"""Runs more, of one beginning, that may be made to try what was found."""
VERIFYING = 3
"""So many times what all other runs may cost is there for these: what was found is worth it."""
MOST_FLIPS = 6
"""Settings that are changed one by one, to see which of them a finding depends on."""
MOST_BLAMED = 3
"""Settings that are left out of a group one by one, since nothing trained; then halves tell."""
MOST_ROUNDS = 12
"""Batches of an epoch that are rehearsed, at most, for the sake of loops that leave some out."""
MOST_GATES = 3
"""Tests around a loop that are answered the other way, one after the other, to come to it."""
MOST_AT_A_GATE = 3
"""Runs once one of them was."""
MANY = 200
"""Functions that seem to train, by what they call."""


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
        facts = program.project.facts
        if not facts.does_something(path):
            continue
        imported = path in program.project.imported
        if not imported or _is_script(tree) or facts.trains_by_itself(path):
            yield explore(program, Root(path))
    while (root := _next_root(program) or _left_early(program)) is not None:
        if program.operations > program.budget:
            program.coverage.spent = True
            return
        assert root.function is not None
        program.visited.add(root.function)
        program.begun_in.add(root.function)
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
        function
        for function in program.waiting or program.project.facts.functions_that_train
        if function.node not in program.visited and function.file in program.project.files
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
    for function in waiting:
        if function.node.name not in called:
            break
    else:
        if not waiting:
            return None
        function = waiting[0]
    return Root(function.file, function.node, function.home)


def _left_early(program: Program) -> Root | None:
    """A function that runs have come to, and none of them to the loops in which it trains."""
    facts = program.project.facts
    for function in facts.functions_that_train:
        node = function.node
        if not function.by_itself or node in program.begun_in:
            continue
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        loops = [
            loop
            for loop in facts.told_in.get(function.file, ())
            if isinstance(loop, LOOPS) and loop.lineno in lines
        ]
        if loops and function.file in program.project.files:
            if not any(map(program.coverage.came_to, loops)):
                return Root(function.file, node, function.home, left_early=True)
    return None


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
        self._work(root, MOST_RUNS)
        for loop in program.project.facts.told_in.get(root.path, ()):
            self._work_towards(root, loop)
        tried = {setting for run in self.runs for setting in run.settings.items()}
        for run in self.runs:
            run.settled = all((key, not answer) in tried for key, answer in run.settings.items())
        _verify(program, root, self.runs, self.tried)

    def _work(self, root: Root, most: int) -> None:
        """Runs along the plans that wait, and those that come out of them."""
        program = self.program
        too_short: Run | None = None
        """The last run, where this one is to have more rounds."""
        made = nothing_new = 0
        while self.waiting and made < most and program.may_go_on():
            plan = self.waiting.pop(0)
            name = _name_of(plan)
            if name in self.tried:
                continue
            self.tried.add(name)
            run = rehearse(program, root, plan)
            longer = _longer(run, too_short)
            too_short = None
            if longer is not None and name not in self.groups:
                # Too short to see a window: as if it had not been.
                too_short = run
                self.waiting.insert(0, longer)
                continue
            asked_more = self._asked_more_before_a_backward(run)
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
            if asked_more:
                self._answer_the_other_way_next(run)
            if nothing_new >= PATIENCE:
                # What was found may hang on a setting that was not tried the other way yet; and
                # where none was, all that was seen is one side of what people run.
                worth_it = any(map(_tells, self.runs)) or not any(
                    run.plan.settings for run in self.runs
                )
                longest = max((run.plan.window for run in self.runs), default=1)
                self.waiting = [
                    plan
                    for plan in self.waiting
                    if (worth_it and plan.settings) or plan.window > longest
                ]
        if self.waiting and not program.may_go_on():
            _leave_unfinished(program, self.runs)

    def _work_towards(self, root: Root, loop: ast.AST) -> None:
        """Answers what stands around a loop that no run came to the other way, from the outside."""
        for _ in range(MOST_GATES):
            came = self.program.coverage.came_to(loop)
            gate = None if came or not says_backward(loop) else self._gate(root, loop)
            if gate is None or _name_of(self._flip(*gate)) in self.tried:
                return
            self.waiting = [self._flip(*gate)]
            self._work(root, MOST_AT_A_GATE)

    def _gate(self, root: Root, loop: ast.AST) -> tuple[Run, list[Hashable]] | None:
        """The innermost test around a loop that a run was asked, as one that never came through."""
        around = self.program.project.facts.tests_around(root.path, loop)
        for run in reversed(self.runs):
            asked = {
                question.line: key for key, question in run.questions.items() if question.fixed
            }
            for line in around:
                if line in asked:
                    return run, [asked[line]]
        return None

    def _is_news(self, run: Run) -> bool:
        """It trains where no run did before, or something is told that was not.

        As long as a loop has not shown what it does, whatever happens otherwise is news.
        """
        if any(_alike(run, earlier) for earlier in self.runs):
            return self._asked_more_before_a_backward(run)
        if not any(map(_trains, self.runs)) or not self.program.coverage.have_shown(run.loops):
            return True
        places, told = _where_it_trains(run), _told(run)
        for earlier in self.runs:
            places -= _where_it_trains(earlier)
            told -= _told(earlier)
        return bool(places or told)

    def _asked_more_before_a_backward(self, run: Run) -> bool:
        """Nothing trains yet, but on the way to a backward one more thing of chance was asked."""
        trains = _trains(run) or any(map(_trains, self.runs))
        if trains or not any(map(says_backward, run.loops)):
            return False
        asked = {key for earlier in self.runs for key in earlier.questions}
        return any(not question.fixed for key, question in _of_chance(run) if key not in asked)

    def _answer_the_other_way_next(self, run: Run) -> None:
        """What it was asked on the way is answered the other way, before anything else is tried."""
        answers = dict(_other_answers(run))
        self.waiting.insert(0, run.plan.but(chance={**run.plan.chance, **answers}))

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
            self.waiting += [self._flip(run, [key]) for key in _settings_of_doubt(run)]
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


def _settings_of_doubt(run: Run) -> list[Hashable]:
    """Settings that lead to code of which little can be told: `if args.horovod`."""
    return [key for key in run.settings if key in run.doubted_under][:MOST_BLAMED]


def _leave_unfinished(program: Program, runs: list[Run]) -> None:
    """There may be no more runs, though some would be worth it."""
    program.coverage.unfinished.update(loop for run in runs for loop in run.loops)


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
        if not some:
            return
        if not _may_verify(program, runs):
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
    if not _may_verify(program, runs):
        return False
    tried.add(name)
    runs.append(rehearse(program, root, plan))
    return True


def _may_verify(program: Program, runs: list[Run]) -> bool:
    if program.may_go_on(VERIFYING) and len(runs) < MOST_RUNS + MOST_VERIFIED:
        return True
    _leave_unfinished(program, runs)
    return False


def _left_to_try(
    program: Program, root: Root, run: Run, plan: Plan, group: list[Hashable]
) -> list[list[Hashable]]:
    """Many answers of chance the other way at once: if that leaves all findings as they are, so
    does each of them by itself that was asked for. What it does not tell is tried in two halves.
    """
    half = len(group) // 2
    halves = [group[:half], group[half:]]
    if not program.may_go_on(VERIFYING):
        return halves
    other = rehearse(program, root, plan)
    if not run.findings.keys() <= other.findings.keys():
        return halves
    rest = [key for key in group if key not in other.questions]
    return [rest] if len(rest) < len(group) else halves


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


def _longer(run: Run, shorter: Run | None) -> Plan | None:
    """A plan with room for the windows that the source itself counts, or for the loops that leave
    out the first or last batches; where a few more were of no help, with as many as there may be.
    """
    helped = shorter is None or run.short_of < shorter.short_of
    more = run.plan.rounds + run.short_of if helped else MOST_ROUNDS
    if run.short_of and run.plan.rounds < more <= MOST_ROUNDS:
        return run.plan.but(rounds=more)
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
            once: Mode = "once" if question.times >= ONCE_AT else "at first"
            yield plan.but(chance={**plan.chance, key: once})
        elif question.periodic:
            yield plan.but(chance={**plan.chance, key: "periodic"})
        if isinstance(question.condition.left, Finite) and question.times > 1:
            mode: Mode = "once not" if question.answer else "once"
            yield plan.but(chance={**plan.chance, key: mode})
    for fault in run.faults:
        if plan.fault is None:
            yield plan.but(fault=fault)
    if _saves_what_waits(run):
        for key, question in _of_chance(run):
            if question.times > 1 and not isinstance(question.condition.left, Finite):
                yield plan.but(chance={**plan.chance, key: "while waiting"})


def _saves_what_waits(run: Run) -> bool:
    """Beside what it saves when nothing waits: `if loss < best` may save the one, not the other."""
    waits = False
    saved: set[bool] = set()
    for event in run.tape:
        if isinstance(event, ev.Save) and event.disk:
            saved.add(waits)
        elif isinstance(event, (ev.Backward, ev.Step, ev.Zero)):
            waits = isinstance(event, ev.Backward)
    return len(saved) > 1


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
