"""One epoch of windows in other people's loops, as each one's documentation writes them.

Each is imported where it is used: see the peers extra.
"""

import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Optimizer
from torch.utils.data import DataLoader

Pair = tuple[Tensor, Tensor]
Batches = list[Pair]
Loop = Callable[[nn.Module, Batches], None]
SIZE = 4


def loader(batches: Batches) -> DataLoader[Pair]:
    return DataLoader(batches, batch_size=1, collate_fn=lambda rows: rows[0])  # type: ignore[arg-type]


def by_hand(model: nn.Module, batches: Batches) -> None:
    optimizer = SGD(model.parameters(), lr=1.0)
    for number, (x, y) in enumerate(loader(batches), 1):
        (cross_entropy(model(x), y) / SIZE).backward()
        if number % SIZE == 0:
            optimizer.step()
            optimizer.zero_grad()


def with_the_tail(model: nn.Module, batches: Batches) -> None:
    optimizer = SGD(model.parameters(), lr=1.0)
    for number, (x, y) in enumerate(loader(batches), 1):
        (cross_entropy(model(x), y) / SIZE).backward()
        if number % SIZE == 0 or number == len(batches):
            optimizer.step()
            optimizer.zero_grad()


def by_engine(model: nn.Module, batches: Batches) -> None:
    from gradkeeper import Engine

    engine = Engine(model, SGD(model.parameters(), lr=1.0), progress=False)
    for window in engine.windows(loader(batches), size=SIZE):
        with window:
            for x, y in window:
                window.backward(cross_entropy(model(x), y), weight=len(y))


def accelerate(model: nn.Module, batches: Batches) -> None:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    accelerator = Accelerator(gradient_accumulation_steps=SIZE, cpu=True)
    prepared = accelerator.prepare(model, SGD(model.parameters(), lr=1.0), loader(batches))
    module, optimizer, data = prepared
    for x, y in data:
        with accelerator.accumulate(module):
            accelerator.backward(cross_entropy(module(x), y))
            optimizer.step()
            optimizer.zero_grad()


def fabric(model: nn.Module, batches: Batches) -> None:
    from lightning.fabric import Fabric

    runner = Fabric(accelerator="cpu", devices=1)
    module, optimizer = runner.setup(model, SGD(model.parameters(), lr=1.0))
    for number, (x, y) in enumerate(runner.setup_dataloaders(loader(batches)), 1):
        waits = number % SIZE != 0
        with runner.no_backward_sync(module, enabled=waits):
            runner.backward(cross_entropy(module(x), y) / SIZE)
        if not waits:
            optimizer.step()
            optimizer.zero_grad()


def lightning(model: nn.Module, batches: Batches) -> None:
    import lightning as pl

    class Module(pl.LightningModule):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def training_step(self, batch: Pair, place: int) -> Tensor:
            x, y = batch
            return cross_entropy(self.inner(x), y)

        def configure_optimizers(self) -> Optimizer:
            return SGD(self.inner.parameters(), lr=1.0)

    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=1,
        accumulate_grad_batches=SIZE,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(), loader(batches))


class Plain(nn.Module):
    """Knows nothing of how many items the window has."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": cross_entropy(self.inner(x), labels)}


class Counting(Plain):
    """Takes the number of items from the Trainer, as the models of transformers do."""

    def forward(
        self, x: Tensor, labels: Tensor, num_items_in_batch: Any = None, **_: Any
    ) -> dict[str, Tensor]:
        count = len(labels) if num_items_in_batch is None else num_items_in_batch
        return {"loss": cross_entropy(self.inner(x), labels, reduction="sum") / count}


def _trainer(wrapped: Plain, batches: Batches) -> None:
    from transformers import PrinterCallback, Trainer, TrainingArguments

    optimizer = SGD(wrapped.parameters(), lr=1.0)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=1,
            per_device_train_batch_size=1,
            gradient_accumulation_steps=SIZE,
            max_grad_norm=0.0,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = Trainer(
            model=wrapped,
            args=arguments,
            train_dataset=[{"x": x, "labels": y} for x, y in batches],  # type: ignore[arg-type, unused-ignore]
            data_collator=lambda rows: rows[0],
            optimizers=(optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)),
        )
        trainer.pop_callback(PrinterCallback)
        trainer.train()


def trainer_counting(model: nn.Module, batches: Batches) -> None:
    _trainer(Counting(model), batches)


def trainer_plain(model: nn.Module, batches: Batches) -> None:
    _trainer(Plain(model), batches)


def ignite(model: nn.Module, batches: Batches) -> None:
    from ignite.engine import create_supervised_trainer

    trainer = create_supervised_trainer(
        model,
        SGD(model.parameters(), lr=1.0),
        lambda scores, y: cross_entropy(scores, y),
        gradient_accumulation_steps=SIZE,
    )
    trainer.run(loader(batches), max_epochs=1)


LOOPS: dict[str, tuple[str, Loop]] = {
    "gradkeeper {}": ("gradkeeper", by_engine),
    "raw loop": ("torch", by_hand),
    "raw loop that steps for the tail": ("torch", with_the_tail),
    "Accelerate {}": ("accelerate", accelerate),
    "Lightning {}": ("lightning", lightning),
    "Fabric {}": ("lightning", fabric),
    "transformers.Trainer {}": ("transformers", trainer_counting),
    "transformers.Trainer {}, a model that takes no count": ("transformers", trainer_plain),
    "Ignite {}": ("pytorch-ignite", ignite),
}
"""By name, with a place for the version; each with the package it comes from."""
