"""transformers: a callback that watches `Trainer.train`.

    from gradkeeper.integrations.transformers import GradkeeperCallback

    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[GradkeeperCallback()])

The Trainer zeroes and steps by itself; what goes wrong in an overridden method or in another
callback is told with its line. `on_finding` is "warn", "raise" or "record", `ignore` names rules,
`tape` is a file for `gradkeeper replay`, `report` a page with the statement. Once the training is
over, `callback.findings` is what was found.

The Trainer does not tell its callbacks when a training dies: `callback.close()` then closes the
books, or the next training does. `with gradkeeper.watch(): trainer.train()` needs neither.
"""

from collections.abc import Iterable
from typing import Any

from transformers import TrainerCallback

from gradkeeper.integrations.called_watch import CalledWatch, PathLike
from gradkeeper.model import Finding
from gradkeeper.watcher.session import OnFinding


class GradkeeperCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
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

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._watch.begin(rank=args.process_index, title="Trainer.train")

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._watch.end()

    def close(self) -> None:
        self._watch.end()
