"""Who owns what: optimizers as they are built and used, the parameters nobody owns, and names."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from gradkeeper.model import Site
from gradkeeper.model import events as ev
from gradkeeper.torch_private import index_sampler_of, storage_key
from gradkeeper.watcher import search
from gradkeeper.watcher.accounts import Accounts
from gradkeeper.watcher.arrivals import Arrivals
from gradkeeper.watcher.gradients import Cohort
from gradkeeper.watcher.manual_changes import ManualChanges
from gradkeeper.watcher.names import UserNames, inner_optimizer, variable_of

NAMELESS_FOR = 2
"""So many backwards an optimizer without a variable waits for its first use."""
ALWAYS_LOOKED = 3
"""So many first steps have the values of their gradients looked at."""
SWEEP_AT = 256
"""With so many accounts, those whose parameters are gone are let go."""


class KnownOptimizer:
    """An optimizer in the books."""

    def __init__(self, name: str, accounts: list[str]) -> None:
        self.name = name
        self.accounts = accounts
        self.signature: object = None
        self.cohorts: list[Cohort] = []
        self.version = -1
        self.looks = 0


class Optimizers:
    def __init__(
        self,
        arrivals: Arrivals,
        accounts: Accounts,
        manual: ManualChanges,
        only: tuple[Optimizer, ...],
    ) -> None:
        self._arrivals = arrivals
        self._underway = arrivals.underway
        self._accounts = accounts
        self._log, self._cohorts = accounts.log, accounts.cohorts
        self._manual = manual
        self._names = UserNames(arrivals.sites)
        accounts.parted.append(self._renamed)
        self._only = weakref.WeakSet(only) if only else None
        self._owners: weakref.WeakKeyDictionary[Any, KnownOptimizer] = weakref.WeakKeyDictionary()
        self._by_id: dict[int, tuple[weakref.ref[Any], KnownOptimizer]] = {}
        """The same, quicker."""
        self.adopted: list[Callable[[list[Cohort]], None]] = []
        """Told of what an optimizer takes as its own, before the books are."""
        self.newcomers: list[tuple[weakref.ref[Any], Site, int]] = []
        """Built, and not in the books yet: the same list for good, as `gone` is."""
        self._candidates: list[weakref.ref[Any]] | None = None
        """Built before the watch, or by another thread, and reached by no gradient yet; None until
        they were looked for."""
        self._by_name: dict[str, KnownOptimizer] = {}
        self.gone: list[str] = []
        """No longer there, and not buried yet."""
        self._others: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        """Names of scalers, schedulers, and loaders that keep their place."""
        self._loaders: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._ignored: weakref.WeakSet[Any] = weakref.WeakSet()

    # Optimizers

    def built(self, optimizer: Optimizer, site: Site) -> None:
        self.newcomers.append((weakref.ref(optimizer), site, 0))

    def settle(self) -> None:
        """Adopts what was built since, then buries what has gone: in this order, so that an
        optimizer which takes another one's place is seen to do so."""
        if self._accounts.given_up:
            self.give_up()
        if self.newcomers:
            built, self.newcomers[:] = list(self.newcomers), []
            for reference, site, age in built:
                optimizer = reference()
                if optimizer is None or not hasattr(optimizer, "param_groups"):
                    continue
                if age < NAMELESS_FOR and self._names.target(site) is None:
                    # Its first use will show what the user calls it.
                    self.newcomers.append((reference, site, age + 1))
                else:
                    self.adopt(optimizer, site)
        if self.gone:
            self.bury(self._arrivals.sites.here())

    def give_up(self) -> None:
        """Closes the books of optimizers that another thread trains."""
        given_up, self._accounts.given_up = self._accounts.given_up, []
        if not given_up:
            return
        site = self._arrivals.sites.here()
        for name in {owner for cohort in given_up for owner in cohort.owners}:
            owner = self._by_name.get(name)
            if owner is None:
                continue
            self._log.flush()
            self._accounts.post(ev.Escape, site, (name,), tuple(owner.accounts))
            self._accounts.post(ev.Close, site, (name,), True)
            for known in [held for held, other in self._owners.items() if other is owner]:
                del self._owners[known]
            self._by_id = {
                key: entry for key, entry in self._by_id.items() if entry[1] is not owner
            }
            del self._by_name[name]
            self._names.release(name)
        for cohort in given_up:
            if cohort.name in self._cohorts.all:
                self._cohorts.drop(cohort)

    def sweep(self) -> None:
        """Lets accounts go whose parameters are no longer there."""
        if len(self._cohorts.all) > SWEEP_AT:
            for cohort in self._cohorts.sweep():
                self._cohorts.drop(cohort)

    def name_of(self, optimizer: Optimizer) -> str | None:
        known = self._by_id.get(id(optimizer))
        if known is not None and known[0]() is optimizer:
            return known[1].name
        inner = inner_optimizer(optimizer)
        return None if inner is optimizer else self.name_of(inner)

    def adopt(self, optimizer: Optimizer, site: Site | None = None) -> str | None:
        """The name of an optimizer, which is entered in the books if it is new or has grown."""
        if self._accounts.given_up:
            self.give_up()
        known = self._by_id.get(id(optimizer))
        if known is None:
            optimizer = inner_optimizer(optimizer)
            known = self._by_id.get(id(optimizer))
        signature = signature_of(optimizer)
        if known is not None and known[0]() is optimizer and known[1].signature == signature:
            return known[1].name
        if self._only is not None and optimizer not in self._only:
            self._ignored.add(optimizer)
            return None
        if len(self.newcomers) > 1:
            self._adopt_earlier(optimizer)
        return self._enter(optimizer, self._owners.get(optimizer), site, signature)

    def _adopt_earlier(self, optimizer: Optimizer) -> None:
        """Those over the same parameters that were built before it: it takes their place, and not
        they its."""
        entries = [(reference(), site) for reference, site, _ in self.newcomers]
        place = next((n for n, (built, _) in enumerate(entries) if built is optimizer), 0)
        own = {id(parameter) for parameter in parameters_of(optimizer)}
        for earlier, site in entries[:place]:
            if earlier is not None and hasattr(earlier, "param_groups"):
                if any(id(parameter) in own for parameter in parameters_of(earlier)):
                    self.adopt(earlier, site)

    def _enter(
        self,
        optimizer: Optimizer,
        owner: KnownOptimizer | None,
        site: Site | None,
        signature: object,
    ) -> str:
        pending = [entry for entry in self.newcomers if entry[0]() is optimizer]
        self.newcomers[:] = [entry for entry in self.newcomers if entry[0]() is not optimizer]
        built = site or (pending[0][1] if pending else None)
        here = built or self._arrivals.sites.here()
        if owner is None:
            owner = KnownOptimizer(self._name(optimizer, built), [])
            self._owners[optimizer] = owner
            self._by_id[id(optimizer)] = (weakref.ref(optimizer), owner)
            self._by_name[owner.name] = owner
            weakref.finalize(optimizer, self.gone.append, owner.name).atexit = False
        owner.signature = signature
        cohorts = self._claim(parameters_of(optimizer), owner.name, here)
        owner.accounts = list(
            dict.fromkeys([*owner.accounts, *(member.name for member in cohorts)])
        )
        owner.version = -1
        for cohort in cohorts:
            cohort.owners.add(owner.name)
        names = tuple(member.name for member in cohorts)
        for tell in self.adopted:
            tell(cohorts)
        self._thaw(parameters_of(optimizer), here)
        self._accounts.post(ev.Adopt, here, owner.name, names, _is_stateful(optimizer))
        return owner.name

    def _name(self, optimizer: Optimizer, built: Site | None) -> str:
        """What the user calls it: where it was built, or where it is used."""
        names, here = self._names, self._arrivals.sites.here()
        wish = names.target(built) if built else None
        wish = wish or variable_of(optimizer, self._arrivals.sites.frame())
        if wish is None:
            wish = names.argument(here) if self._underway.scaling else names.used(here)
        return names.unique(wish or type(optimizer).__name__)

    def _claim(self, parameters: list[torch.Tensor], owner: str, site: Site) -> list[Cohort]:
        self._learn(parameters)
        found = [
            self._accounts.split(cohort, marks, site)
            for cohort, marks in self._cohorts.touched(parameters).items()
        ]
        unknown = [parameter for parameter in parameters if self._cohorts.of(parameter) is None]
        self._accounts.claim(unknown)
        for trains in (True, False):
            group = [leaf for leaf in unknown if leaf.requires_grad is trains]
            if group:
                wish = owner if trains else f"{owner} (frozen)"
                cohort = self._cohorts.open(wish, group, trainable=trains)
                self._accounts.describe(cohort, site)
                self._manual.opened(cohort, site)
                found.append(cohort)
        return found

    def adopt_newcomers_for(self, parameters: list[torch.Tensor]) -> None:
        """Enters those that were built lately and own one of these, whatever they are called."""
        if self.newcomers and not self._are_known(parameters):
            built = [
                alive for reference, *_ in self.newcomers if (alive := reference()) is not None
            ]
            self._adopt_owners(built, parameters)

    def adopt_for(self, leaves: list[torch.Tensor]) -> None:
        """Enters the optimizers that own these, where they were built before the watch or by
        another thread."""
        if not self._candidates and self._are_known(leaves):
            return
        if self._candidates is None:
            near = self._near()
            self._adopt_owners(
                [thing for thing in near if issubclass(type(thing), Optimizer)], leaves
            )
            if self._are_known(leaves):
                return
            found = [thing for thing in search.everywhere() if issubclass(type(thing), Optimizer)]
        else:
            found = [alive for reference in self._candidates if (alive := reference()) is not None]
        self._candidates = [
            weakref.ref(optimizer) for optimizer in self._adopt_owners(found, leaves)
        ]

    def _adopt_owners(self, found: list[Any], leaves: list[torch.Tensor]) -> list[Any]:
        """Those among `found` that own none of these are returned."""
        reached = set(map(id, leaves))
        others = []
        for optimizer in found:
            if optimizer in self._owners:
                continue
            if any(id(parameter) in reached for parameter in parameters_of(optimizer)):
                self.adopt(optimizer)
            else:
                others.append(optimizer)
        return others

    def _are_known(self, leaves: list[torch.Tensor]) -> bool:
        return all(self._cohorts.of(leaf) is not None or self.is_elsewhere(leaf) for leaf in leaves)

    def _near(self) -> list[Any]:
        sites = self._arrivals.sites
        return search.among_variables(sites.frame(), sites)

    def constants(self) -> set[int]:
        """Addresses of storages that belong to modules: their buffers."""
        modules = [thing for thing in self._near() if issubclass(type(thing), torch.nn.Module)]
        buffers = [buffer for module in modules for buffer in module.buffers()]
        return {storage_key(buffer) for buffer in buffers if buffer.layout is torch.strided}

    def _learn(self, parameters: list[torch.Tensor]) -> None:
        """What modules call these."""
        frame = self._arrivals.sites.frame()
        names = frame.f_globals if frame else {}
        self._accounts.modules.learn(parameters, names, self._near)

    def cohorts(self, name: str) -> list[Cohort]:
        known, owner = self._cohorts.all, self._by_name[name]
        if owner.version != self._cohorts.version:
            owner.version = self._cohorts.version
            owner.cohorts = [known[account] for account in owner.accounts if account in known]
        return owner.cohorts

    def named(self) -> list[tuple[str, Optimizer]]:
        """Those that are still there."""
        return [(known.name, owner) for owner, known in self._owners.items()]

    def due(self, name: str) -> bool:
        """Whether this step is one of the first, or one of ever fewer later ones."""
        owner = self._by_name[name]
        owner.looks += 1
        return owner.looks <= ALWAYS_LOOKED or owner.looks & (owner.looks - 1) == 0

    def _renamed(self, old: str, new: tuple[str, ...]) -> None:
        for owner in self._by_name.values():
            if old in owner.accounts:
                place = owner.accounts.index(old)
                owner.accounts[place : place + 1] = list(new)
                owner.version = -1

    def bury(self, site: Site) -> None:
        """Closes the books of optimizers that have gone."""
        dead, self.gone[:] = list(self.gone), []
        for name in dead:
            if name not in self._by_name:
                continue  # given up
            self._log.flush()
            self._accounts.post(ev.Close, site, (name,))
            for cohort in self.cohorts(name):
                cohort.owners.discard(name)
                if not cohort.owners:
                    self._cohorts.drop(cohort)
            del self._by_name[name]
            self._names.release(name)

    # Parameters that nobody owns

    def is_elsewhere(self, parameter: torch.Tensor) -> bool:
        """Owned by an optimizer that is not watched."""
        return any(ignored is parameter for own in self._ignored for ignored in parameters_of(own))

    def open_orphans(self, parameters: list[torch.Tensor], site: Site) -> None:
        self._learn(parameters)
        self._accounts.claim(parameters)
        groups: dict[tuple[str, bool], list[torch.Tensor]] = {}
        trains = self._trains_network()
        for parameter in parameters:
            root = _root(self._accounts.modules.path(parameter))
            trainable = trains and not self._accounts.modules.is_fixed(parameter)
            groups.setdefault((root, trainable), []).append(parameter)
        for (root, trainable), group in groups.items():
            cohort = self._cohorts.open(root, group, trainable=trainable)
            self._accounts.describe(cohort, site)

    def _thaw(self, owned: list[torch.Tensor], site: Site) -> None:
        """A part of a network is going to be trained that was taken for fixed so far: its other
        parts are orphans, unless they are in eval mode."""
        modules = self._accounts.modules
        weights = [parameter for parameter in owned if modules.is_weight(parameter)]
        roots = {_root(modules.path(parameter)) for parameter in weights}
        for cohort in list(self._cohorts.all.values()) if roots else ():
            if cohort.trainable or cohort.owners:
                continue
            there = (mark.parameter() for mark in cohort.marks)
            held = [parameter for parameter in there if parameter is not None]
            if all(
                _root(modules.path(parameter)) in roots and not modules.is_fixed(parameter)
                for parameter in held
            ):
                cohort.trainable = True
                self._accounts.describe(cohort, site)

    def _trains_network(self) -> bool:
        """False where only inputs or embeddings are optimized, through a network that is fixed."""
        owned = [parameter for own in self._owners for parameter in parameters_of(own)]
        return not owned or any(self._accounts.modules.is_weight(parameter) for parameter in owned)

    # Scalers and schedulers

    def scaler_name(self, scaler: object, site: Site) -> str:
        return self._other(scaler, site, "scaler")

    def scheduler_name(self, scheduler: object, site: Site) -> str:
        return self._other(scheduler, site, "scheduler")

    def loader_name(self, iterator: Any, site: Site) -> str:
        """By its data, which all its iterators share; a name of a variable is not to be had."""
        indices = index_sampler_of(iterator)
        data = iterator if indices is None else indices
        name = self._loaders.get(id(data))
        if name is None or name[0]() is not data:
            made = self._names.unique(f"the loader at line {site.line}")
            name = self._loaders[id(data)] = (weakref.ref(data), made)
        return name[1]

    def stateful_loader_name(self, loader: object, site: Site) -> str:
        return self._other(loader, site, "loader")

    def all_names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    def _other(self, thing: object, site: Site, fallback: str) -> str:
        name = self._others.get(thing)
        if name is None:
            names = self._names
            name = self._others[thing] = names.unique(names.receiver(site) or fallback)
        return name


def _root(path: str | None) -> str:
    """The network that a parameter belongs to."""
    return (path or "parameter").split(".")[0]


def parameters_of(optimizer: Optimizer) -> list[torch.Tensor]:
    """None for a wrapper that only looks like an optimizer, and never called its constructor."""
    groups = getattr(optimizer, "param_groups", ())
    return [parameter for group in groups for parameter in group["params"]]


def signature_of(optimizer: Optimizer) -> object:
    """Changes when it is given other parameters."""
    groups = optimizer.param_groups
    if len(groups) == 1:
        group = groups[0]["params"]
        return len(group), id(group[0]) if group else 0
    owned = [group["params"] for group in groups]
    return [(len(group), id(group[0]) if group else 0) for group in owned]


def _is_stateful(optimizer: Optimizer) -> bool:
    if type(optimizer) is not torch.optim.SGD:
        return True
    return any(group.get("momentum") for group in optimizer.param_groups)
