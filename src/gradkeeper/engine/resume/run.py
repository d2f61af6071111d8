"""All that is kept of a run beside its place: its owners, and what the user tracks."""

from collections.abc import Mapping
from typing import Any

from gradkeeper.engine.errors import ResumeError, SetupError
from gradkeeper.engine.owner import Owner, parameters_of
from gradkeeper.engine.resume.differences import refuse_difference
from gradkeeper.engine.resume.modules import buffers_of, restore_buffers
from gradkeeper.engine.resume.owners import owner_shape, owner_state, restore_owner
from gradkeeper.engine.resume.sharded import unsharded
from gradkeeper.engine.resume.tracked import Tracked, tracked

State = dict[str, Any]
FORMAT = 1


class Run:
    def __init__(self, owners: Mapping[str, Owner]) -> None:
        self.owners = owners
        self._tracked: dict[str, Tracked] = {}
        self._unclaimed: State = {}
        """Loaded under names that nobody has tracked yet."""

    @property
    def steps(self) -> int:
        """Of the owner that has taken the most."""
        return max(owner.steps for owner in self.owners.values())

    def track(self, name: str, thing: Any) -> None:
        if name in self._tracked:
            raise SetupError(f"{name!r} is tracked already: each name stands for one object")
        self._tracked[name] = tracked(name, thing)
        if name in self._unclaimed:
            self._restore_tracked(name, self._unclaimed.pop(name))

    def state(self) -> State:
        return {
            "engine": FORMAT,
            "shape": self._shape(),
            "owners": {name: owner_state(owner) for name, owner in self.owners.items()},
            "tracked": self._unclaimed | {name: one.state() for name, one in self._tracked.items()},
        }

    def check(self, state: Any) -> None:
        """ResumeError, with the difference, if it is another run's."""
        if not isinstance(state, dict) or state.get("engine") != FORMAT:
            raise ResumeError("this state was not made by this version of the engine")
        refuse_difference("the checkpoint is of another run", state["shape"], self._shape())
        unknown = self._tracked.keys() - state["tracked"].keys()
        if unknown:
            names = ", ".join(sorted(unknown))
            raise ResumeError(f"the checkpoint holds nothing of what is tracked here: {names}")

    def restore(self, state: State) -> None:
        for name, owner in self.owners.items():
            restore_owner(owner, state["owners"][name])
        for name, buffers in state.get("buffers", {}).items():
            restore_buffers(self.owners[name].model, buffers)
        for name in self._tracked:
            self._restore_tracked(name, state["tracked"][name])
        self._unclaimed = {
            name: one for name, one in state["tracked"].items() if name not in self._tracked
        }

    def buffers(self) -> State:
        """Those of this rank, where the weights are saved by another."""
        return {name: buffers_of(owner.model) for name, owner in self.owners.items()}

    def _restore_tracked(self, name: str, state: Any) -> None:
        first = next(iter(self.owners.values()))
        parameter = next(iter(parameters_of(first.optimizer)), None)
        self._tracked[name].restore(unsharded(state, getattr(parameter, "device_mesh", None)))

    def _shape(self) -> State:
        return {name: owner_shape(owner) for name, owner in self.owners.items()}
