"""Lightning: a callback that watches `fit`, under the name lightning or pytorch_lightning.

    from gradkeeper.integrations.lightning import GradkeeperCallback

    trainer = Trainer(callbacks=[GradkeeperCallback(tape="run.tape")])

Lightning zeroes and steps by itself, unless a module optimizes by hand; what goes wrong there is
told with the module's line. `on_finding` is "warn", "raise" or "record", `ignore` names rules,
`tape` is a file for `gradkeeper replay`, `report` a page with the statement. Once `fit` is over,
`callback.findings` is what was found.
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gradkeeper.integrations.called_watch import CalledWatch, PathLike
from gradkeeper.model import Finding
from gradkeeper.watcher.session import OnFinding

if TYPE_CHECKING:
    from lightning.pytorch.callbacks import Callback
elif "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning.callbacks import Callback
else:
    try:
        from lightning.pytorch.callbacks import Callback
    except ModuleNotFoundError:
        from pytorch_lightning.callbacks import Callback


class GradkeeperCallback(Callback):  # type: ignore[misc, unused-ignore]
    def __init__(
        self,
        *,
        on_finding: OnFinding | None = None,
        ignore: str | Iterable[str] = (),
        tape: PathLike | None = None,
        report: PathLike | None = None,
    ) -> None:
        self._watch = CalledWatch(on_finding=on_finding, ignore=ignore, tape=tape, report=report)

    @property
    def findings(self) -> list[Finding]:
        return self._watch.findings

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage == "fit":
            self._watch.begin(rank=trainer.global_rank, title=type(pl_module).__name__)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._watch.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._watch.end()
