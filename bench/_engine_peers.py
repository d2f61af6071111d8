"""The same work in other people's loops. Each is imported where it is used: see the peers extra."""

import logging
import tempfile
import warnings
from typing import Any

from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from bench._engine_loops import CLIP, RATE, Clock
from bench._engine_problems import Problem


def accelerate(problem: Problem, size: int, clock: Clock) -> None:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    accelerator = Accelerator(gradient_accumulation_steps=size, cpu=True)
    model = problem.model()
    optimizer = AdamW(model.parameters(), lr=RATE)
    model, optimizer, loader = accelerator.prepare(model, optimizer, problem.loader())
    total: Any = 0.0
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = problem.loss(model, x, y)
            accelerator.backward(loss)
            total += loss.detach()
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            clock.logged.append(float(total) / size)
            total = 0.0
            clock.tick()


def fabric(problem: Problem, size: int, clock: Clock) -> None:
    from lightning.fabric import Fabric

    runner = Fabric(accelerator="cpu", devices=1)
    module = problem.model()
    model, optimizer = runner.setup(module, AdamW(module.parameters(), lr=RATE))
    loader = runner.setup_dataloaders(problem.loader())
    total: Any = 0.0
    for place, (x, y) in enumerate(loader):
        ends = (place + 1) % size == 0
        with runner.no_backward_sync(model, enabled=not ends):
            loss = problem.loss(model, x, y) / size
            runner.backward(loss)
        total += loss.detach()
        if ends:
            runner.clip_gradients(model, optimizer, max_norm=CLIP)
            optimizer.step()
            optimizer.zero_grad()
            clock.logged.append(float(total))
            total = 0.0
            clock.tick()


def lightning(problem: Problem, size: int, clock: Clock) -> None:
    import lightning as pl

    class Module(pl.LightningModule):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.inner = problem.model()
            self.total: Any = 0.0

        def training_step(self, batch: tuple[Tensor, Tensor], place: int) -> Tensor:
            loss = problem.loss(self.inner, *batch)
            self.total += loss.detach()
            return loss

        def configure_optimizers(self) -> Optimizer:
            return AdamW(self.inner.parameters(), lr=RATE)

        def on_train_batch_end(self, outputs: Any, batch: Any, place: int) -> None:
            if (place + 1) % size == 0:
                clock.logged.append(float(self.total) / size)
                self.total = 0.0
                clock.tick()

    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=1,
        accumulate_grad_batches=size,
        gradient_clip_val=CLIP,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(), problem.loader())


def transformers(problem: Problem, size: int, clock: Clock) -> None:
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = problem.model()

        def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
            return {"loss": problem.loss(self.inner, x, labels)}

    class Tick(TrainerCallback):  # type: ignore[misc, unused-ignore]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            clock.tick()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            clock.logged.append(logs.get("loss", 0.0))

    rows = [{"x": x, "labels": y} for x, y in zip(problem.x, problem.y, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=1,
            per_device_train_batch_size=problem.batch,
            gradient_accumulation_steps=size,
            max_grad_norm=CLIP,
            learning_rate=RATE,
            optim="adamw_torch",  # its default is the fused one, which is faster for everybody
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = Trainer(
            model=Wrapped(),
            args=arguments,
            train_dataset=rows,  # type: ignore[arg-type, unused-ignore]
            callbacks=[Tick()],
        )
        trainer.pop_callback(_printer())
        trainer.train()


def _printer() -> Any:
    from transformers import PrinterCallback

    return PrinterCallback


def ignite(problem: Problem, size: int, clock: Clock) -> None:
    from ignite.engine import Engine, Events

    model = problem.model()
    optimizer = AdamW(model.parameters(), lr=RATE)
    state: dict[str, Any] = {"total": 0.0}

    def update(engine: Any, batch: tuple[Tensor, Tensor]) -> None:
        loss = problem.loss(model, *batch) / size
        loss.backward()
        state["total"] += loss.detach()
        if engine.state.iteration % size == 0:
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad()

    def log(engine: Any) -> None:
        clock.logged.append(float(state["total"]))
        state["total"] = 0.0
        clock.tick()

    trainer = Engine(update)
    trainer.add_event_handler(Events.ITERATION_COMPLETED(every=size), log)
    trainer.run(problem.loader(), max_epochs=1)


def quieten() -> None:
    """They greet, advise and warn at each start."""
    warnings.simplefilter("ignore")
    for name in (
        "lightning",
        "lightning.pytorch",
        "lightning.fabric",
        "transformers",
        "accelerate",
    ):
        logging.getLogger(name).setLevel(logging.ERROR)


PEERS = {
    "Fabric": fabric,
    "Ignite": ignite,
    "Accelerate": accelerate,
    "Lightning": lightning,
    "transformers.Trainer": transformers,
}
