"""What a backward credits: told by which gradients changed, not by what the graph promises.

A walk over the whole graph is made for the first backwards of a line, and then ever more rarely:
it finds parameters that nobody owns, leaves that are no parameters, and how the forward ran.
"""

import weakref
from collections.abc import Sequence

import torch

from gradkeeper.model import Site
from gradkeeper.model import events as ev
from gradkeeper.torch_private import held_here, keep_from_compiler
from gradkeeper.watcher.accounts import Accounts
from gradkeeper.watcher.arrivals import Arrivals
from gradkeeper.watcher.effects import Credited, CreditedAgain, Unchanged
from gradkeeper.watcher.event_log import EventKey
from gradkeeper.watcher.fast_path import FastPath
from gradkeeper.watcher.gradient_sync import GradientSync, unsharded_by_fsdp
from gradkeeper.watcher.gradients import Cohort, Mark
from gradkeeper.watcher.inner_batches import InnerBatches
from gradkeeper.watcher.kept_graphs import KeptGraphs
from gradkeeper.watcher.lasting_data import lasting_data
from gradkeeper.watcher.loss_graph import (
    UNKNOWN,
    BackwardReach,
    facts_of,
    items_of,
    reach_of,
)
from gradkeeper.watcher.manual_changes import ManualChanges
from gradkeeper.watcher.measures import Measures
from gradkeeper.watcher.optimizers import Optimizers

MOST_LOSSES = 64
ALWAYS_WALKED = 3
MOST_ASKED = 64
"""Walks for the sake of modules that change: some programs build one in every round."""
MOST_SOUGHT = 64
"""Leaves by which derivatives were asked for, before those that are gone are let go."""
OFTEN = 12
"""A leaf beside an optimizer is an input under attack until it has been seen so often."""
MOST_REMEMBERED = 65_536
"""Elements of a weight that is copied, to tell whether it was moved by hand."""


OtherLeaves = dict[int, tuple[weakref.ref[torch.Tensor], int]]
"""Leaves that are neither owned nor parameters, and how many walks in a row found them."""


class BackwardLine:
    """What is known of the backwards of one line."""

    __slots__ = ("asked", "autocast", "count", "coupled", "due_at", "inner", "leaf", "leaves")

    def __init__(self) -> None:
        self.count = 0
        self.due_at = 1
        self.asked = 0
        """How often a walk was asked for before it was due."""
        self.coupled = False
        self.autocast: str | None = None
        self.inner = False
        """It lies in an inner loop, of which it is not known yet what its rounds bring."""
        self.leaf = False
        self.leaves: OtherLeaves = {}

    def reached(self) -> tuple[object, ...]:
        """What a walk has found, as far as events tell of it."""
        return self.leaf, self.autocast, self.coupled

    def look_again(self) -> None:
        if self.due_at > self.count + 1 and self.asked < MOST_ASKED:
            self.asked += 1
            self.due_at = self.count + 1

    def due(self) -> bool:
        """Whether a walk is due now; if so, when the next one will be."""
        if self.count < self.due_at:
            return False
        self.due_at += 1 if self.due_at < ALWAYS_WALKED + 1 else self.due_at
        return True


class Backwards:
    def __init__(
        self,
        arrivals: Arrivals,
        accounts: Accounts,
        optimizers: Optimizers,
        manual: ManualChanges,
        fast_path: FastPath,
        sync: GradientSync,
        measures: Measures | None,
    ) -> None:
        self._arrivals, self._loaders = arrivals, arrivals.loaders
        self._accounts = accounts
        self._log, self._cohorts = accounts.log, accounts.cohorts
        self._optimizers = optimizers
        self._newcomers, self._gone = optimizers.newcomers, optimizers.gone
        optimizers.adopted.append(lambda _: self.look_again())
        self._manual = manual
        self._fast_path = fast_path
        self._sync = sync
        self._measures = measures
        self._underway = arrivals.underway
        self._lines: dict[Site, BackwardLine] = {}
        self._inner = InnerBatches()
        self.kept = KeptGraphs(arrivals.sites)
        self._asked: dict[int, weakref.ref[torch.Tensor]] = {}
        """Leaves by which derivatives were asked for."""
        self.retains: bool | None = False
        """The next backward leaves its graph as it is, for another one."""
        self._last: torch.Tensor | None = None
        """The loss of the running backward, where its graph is to be marked."""
        self._site: Site | None = None
        self._line = BackwardLine()
        """Of the running backward, or of the last one."""
        self._facts = UNKNOWN
        self._items: tuple[int, int] | None = None
        self._loss: torch.Tensor | None = None
        self._as_ever = False
        """The running backward began as the fast path expects."""

    @keep_from_compiler
    def begins(self, tensors: list[torch.Tensor], gradient: object, above: int) -> None:
        """Is about to run. One inside another (reentrant checkpointing) belongs to it."""
        underway = self._underway
        if underway.depth:
            underway.depth += 1
            self._walk(tensors)
            return
        underway.depth = 1
        if self._newcomers or self._gone:
            self._optimizers.settle()
        loaders = self._loaders
        first, fetched = False, loaders.in_a_row
        if fetched or loaders.unused:
            first = loaders.used()
        facts = self._facts = facts_of(tensors[0], gradient) if len(tensors) == 1 else UNKNOWN
        moment = self._fast_path.again(facts, None, above)
        if moment is None:
            self._as_ever = False
            self._begins(tensors, first=first, fetched=fetched)
            return
        self._as_ever = True
        site = self._arrivals.last = moment.site
        if site is not self._site:  # a site takes a while to be looked up
            self._site, self._line = site, self._lines[site]
        line = self._line
        line.count += 1
        if line.count >= line.due_at and line.due():
            before = line.reached()
            self._walk(tensors)
            self._as_ever = line.reached() == before

    def _begins(self, tensors: list[torch.Tensor], *, first: bool, fetched: int) -> None:
        """`first`: since a batch was fetched. `fetched`: so many, by the program itself."""
        start = self._fast_path.start()
        self._optimizers.sweep()
        site = self._site = self._arrivals.arrive()
        self._items = self._loss = None
        if not self._log.steady:
            # Only close looks ask for it; in a steady loop the gradients themselves will do.
            self._loss = tensors[0].detach() if _is_one_number(tensors) else None
            self._last = tensors[0] if len(tensors) == 1 and not self.retains else None
            self._items = items_of(tensors[0]) if len(tensors) == 1 else None
        if self._measures is not None:
            self._measures.begins(tensors)
        line = self._lines.get(site)
        if line is None:
            line = self._lines[site] = BackwardLine()
        self._line = line
        line.count += 1
        due = line.due()
        if due:
            self._look_for_totals(site)
        if due or (line.leaf and not self._log.steady):
            self._walk(tensors)
        if self._loaders.held:
            self._tell_held(tensors, site, first=first)
        if self._loaders.unread:
            self._tell_fetched(tensors, site, first=fetched > 0)
        self._tell_batch(tensors, line, site)
        everyone = self._cohorts.everyone()
        self._manual.notice(everyone, site, using=True)
        self._fast_path.learn(start, self._facts, Unchanged(everyone))

    def _look_for_totals(self, site: Site) -> None:
        for total in self.kept.look(self._arrivals.sites.frame()):
            self._accounts.post(ev.Keep, total.site, total.name, total.steps, (site,))

    @keep_from_compiler
    def asked_for(self, inputs: Sequence[object]) -> None:
        """Derivatives by these were asked for, as for a gradient penalty: what a backward adds to
        their `.grad` beside that is not what they are there for."""
        for tensor in inputs:
            if isinstance(tensor, torch.Tensor) and tensor.is_leaf:
                self._asked[id(tensor)] = weakref.ref(tensor)
        if len(self._asked) > MOST_SOUGHT:
            self._asked = {key: known for key, known in self._asked.items() if known() is not None}

    def _was_asked_for(self, leaf: torch.Tensor) -> bool:
        known = self._asked.get(id(leaf))
        return known is not None and known() is leaf

    def look_again(self) -> None:
        """A module has another part, or an optimizer is new: the next backward of each line is
        walked."""
        for line in self._lines.values():
            line.look_again()

    def _tell_batch(self, tensors: list[torch.Tensor], line: BackwardLine, site: Site) -> None:
        """Where an inner loop without a loader has gone round: has it brought another batch?"""
        rounds = self._arrivals.rounds
        loop, rounds.inner = rounds.inner, None
        if self._loaders.begun:
            return
        if loop is None:
            if line.count == 1 or line.inner:
                self._inner.first(site, tensors)
            elif line.count == 2:
                self._inner.forget(site)
            return
        line.inner = True
        constants = self._optimizers.constants()
        if self._inner.another(loop, site, tensors, constants, lambda: lasting_data(rounds)):
            self._arrivals.another_batch(site)
        if self._inner.is_beyond_doubt(loop):
            rounds.bringing.add(loop)
        elif self._inner.are_of_one_batch(loop):
            rounds.sharing.add(loop)
        else:
            return
        line.inner = False
        self._inner.forget(site)

    def _tell_fetched(self, tensors: list[torch.Tensor], site: Site, *, first: bool) -> None:
        """Where the program has fetched several batches in a row: is this of the next?"""
        loaders = self._loaders
        if not loaders.live:
            return  # the loops tell
        beyond_doubt = self._inner.is_beyond_doubt(loaders.source)
        if first and not beyond_doubt:
            self._inner.first(site, tensors)
        elif first:
            self._inner.forget(site)
        elif beyond_doubt or self._inner.another(
            loaders.source, site, tensors, self._optimizers.constants()
        ):
            loaders.use(site)

    def _tell_held(self, tensors: list[torch.Tensor], site: Site, *, first: bool) -> None:
        """Where a framework has fetched several batches: is this one of the next?"""
        loaders = self._loaders
        loader = loaders.held[0][0]
        beyond_doubt = self._inner.is_beyond_doubt(loader)
        if first:
            if not beyond_doubt:
                self._inner.first(site, tensors)
            return
        if beyond_doubt:
            self._inner.forget(site)
            loaders.take()
        elif self._inner.another(loader, site, tensors, self._optimizers.constants()):
            loaders.take()

    @keep_from_compiler
    def ends(self) -> None:
        underway, site = self._underway, self._site
        underway.depth -= 1
        if underway.depth or site is None:
            return
        fast_path = self._fast_path
        if self._as_ever and fast_path.ends_again(site):
            return
        if self._last is not None:
            last, self._last = self._last, None
            self.kept.mark(last)
        start = fast_path.start()
        credited = self._credit(self._cohorts.everyone(), site)
        self._items = self._loss = None
        if any(cohort.hidden for cohort in credited):
            return  # what is remembered of them at each backward is nothing to do again
        others = [cohort for cohort in self._cohorts.everyone() if cohort not in credited]
        fast_path.learn_ending(start, site, CreditedAgain(credited, others))

    @keep_from_compiler
    def fails(self) -> None:
        """An exception came out of it: what is there is half written."""
        self.ends()
        if self._underway.depth == 0:
            self.fault(torn=True)

    @keep_from_compiler
    def fault(self, *, torn: bool) -> None:
        site = self._arrivals.sites.here()
        waiting = tuple(cohort.name for cohort in self._cohorts if cohort.fresh)
        if waiting:
            self._accounts.post(ev.Fault, site, waiting, torn)

    def inside_backward(self, owner: str) -> None:
        """A step inside a running backward (a hook) spends what came so far."""
        if self._underway.depth and self._site is not None:
            self._credit(self._optimizers.cohorts(owner), self._site)

    # Who was credited

    def _credit(self, cohorts: list[Cohort], site: Site) -> list[Cohort]:
        closely = not self._log.steady
        credited: list[Cohort] = []
        for cohort in cohorts:
            looked = cohort.look(closely=closely)
            changed = [mark for mark in looked if self._is_credited(mark)]
            if not changed:
                continue
            if len(changed) < len(looked):
                cohort = self._part(cohort, site)
            cohort.note(closely=closely)
            self._note_shards(cohort)
            credited.append(cohort)
        if credited:
            self._post(credited, site)
        return credited

    def _note_shards(self, cohort: Cohort) -> None:
        for mark in cohort.marks:
            shard = self._sync.shard(mark)
            if shard is None:
                return
            shard.note()

    def _part(self, cohort: Cohort, site: Site) -> Cohort:
        """Some members of it were credited: they go their own way from now on."""
        self._lines[site].look_again()  # what is credited in place of the rest?
        changed = [mark for mark in cohort.marks if not mark.known or self._is_credited(mark)]
        return self._accounts.split(cohort, changed, site)

    def _is_credited(self, mark: Mark) -> bool:
        """Where FSDP2 holds a gradient back until ranks exchange it, that one counts as well."""
        if mark.is_credited():
            return True
        shard = self._sync.shard(mark)
        return shard is not None and shard.is_credited()

    def _post(self, credited: list[Cohort], site: Site) -> None:
        facts, line = self._facts, self._lines[site]
        for cohort in credited:
            cohort.used = True
            if not cohort.trainable and cohort.owners:
                cohort.trainable = True
                self._accounts.describe(cohort, site)
        late = {}
        if self._items is not None:
            late = {"items": self._items[0], "ignored": self._items[1]}
        names = tuple([cohort.name for cohort in credited])
        synced = self._sync.synced(credited) if self._sync.several else None
        key: EventKey = (
            ev.Backward, site, names, facts.multiplier, facts.reduction, None, None,
            line.leaf, facts.scaler, line.autocast, line.coupled,
            synced, self._underway.within,
        )  # fmt: skip
        if facts.twice is not None:
            key = (*key, False, facts.twice)
        self._log.enter(key, late)
        if self._measures is not None:
            self._measures.credited(credited)
        Credited(credited).apply()
        for cohort in credited:
            cohort.unsynced, cohort.summed_aside = synced is False, False
            if self._loss is not None and len(cohort.losses) < MOST_LOSSES:
                cohort.losses.append(self._loss)
            unsure = not self._log.steady and (cohort.suspect or not cohort.owners)
            if unsure or cohort.hidden:
                cohort.memory = _remember(cohort)

    # What the graph reaches

    def _walk(self, tensors: list[torch.Tensor]) -> None:
        reach = reach_of(tensors)
        site = self._site
        if site is None:
            return
        line = self._lines.setdefault(site, BackwardLine())
        line.coupled = line.coupled or reach.coupled
        line.autocast = reach.autocast or line.autocast
        self._open_unknown(reach, line, site)

    def _open_unknown(self, reach: BackwardReach, line: BackwardLine, site: Site) -> None:
        self._optimizers.adopt_for(reach.leaves)
        unknown = [leaf for leaf in reach.leaves if self._cohorts.of(leaf) is None]
        if unknown:
            hidden = unsharded_by_fsdp()
            unknown = [leaf for leaf in unknown if id(leaf) not in hidden]
        unknown = [leaf for leaf in unknown if not self._optimizers.is_elsewhere(leaf)]
        parameters: list[torch.Tensor] = [
            leaf for leaf in unknown if isinstance(leaf, torch.nn.Parameter)
        ]
        others = [
            leaf
            for leaf in unknown
            if not isinstance(leaf, torch.nn.Parameter) and not self._was_asked_for(leaf)
        ]
        line.leaf = bool(others)
        # An input is another tensor each time; one that comes back is trained by hand.
        often = OFTEN if self._optimizers.all_names() else 2
        line.leaves = {id(other): _seen_again(line.leaves, other) for other in others}
        kept = [other for other in others if line.leaves[id(other)][1] >= often]
        if parameters:
            self._optimizers.open_orphans(parameters, site)
        for leaf in kept:
            cohort = self._cohorts.open(f"tensor{tuple(leaf.shape)}", [leaf], trainable=False)
            self._accounts.describe(cohort, site)


def _seen_again(leaves: OtherLeaves, leaf: torch.Tensor) -> tuple[weakref.ref[torch.Tensor], int]:
    known = leaves.get(id(leaf))
    if known is not None and known[0]() is leaf:
        return known[0], known[1] + 1
    return weakref.ref(leaf), 1


def _is_one_number(tensors: list[torch.Tensor]) -> bool:
    return len(tensors) == 1 and tensors[0].dim() == 0


def _remember(cohort: Cohort) -> tuple[Mark, torch.Tensor, torch.Tensor | None] | None:
    alive = [(mark, mark.parameter()) for mark in cohort.marks]
    small = [
        (parameter.numel(), place)
        for place, (_, parameter) in enumerate(alive)
        if parameter is not None and 0 < parameter.numel() <= MOST_REMEMBERED
    ]
    if not small:
        return None
    mark, parameter = alive[min(small)[1]]
    if parameter is None:
        return None
    grad = mark.grad_now()
    kept = None if grad is None or grad.is_sparse else held_here(grad).detach().clone()
    return mark, held_here(parameter).detach().clone(), kept
