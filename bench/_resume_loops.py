"""The same training, saved and resumed the way each framework's documentation says.

Each loop gets a phase and returns the weights at the end. Frameworks are imported where they are
used: see the peers extra.
"""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bench._resume_problem import (
    BATCH,
    EPOCHS,
    LENGTH,
    RATE,
    SEED,
    SIZE,
    Phase,
    dataset,
    loader,
    loss_of,
    model,
    optimizer_of,
    weights_of,
)

GRACE = 3.5  # transformers.Trainer waits 3 seconds after SIGTERM before it thinks of saving
Loop = Callable[[Phase], list[Tensor]]


def raw_recipe(phase: Phase) -> list[Tensor]:
    """PyTorch's recipe for a general checkpoint, with the number of the batch to skip to."""
    torch.manual_seed(SEED)
    module, path = model(), phase.folder / "checkpoint.pt"
    optimizer, batches = optimizer_of(module), loader()
    first_epoch = skip = 0
    if phase.resume:
        checkpoint = torch.load(path)
        module.load_state_dict(checkpoint["model_state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
        first_epoch, skip = checkpoint["epoch"], checkpoint["batch"]
    for epoch in range(first_epoch, EPOCHS):
        for place, (x, y) in enumerate(batches):
            if epoch == first_epoch and place < skip:
                continue
            (loss_of(module, x, y) / SIZE).backward()
            if (place + 1) % SIZE == 0:
                optimizer.step()
                optimizer.zero_grad()
            if phase.ends_here(epoch * LENGTH + place + 1):
                state = {
                    "epoch": epoch,
                    "batch": place + 1,
                    "model_state_dict": module.state_dict(),
                    "optimizer_state_dict": optimizer.state_dict(),
                }
                torch.save(state, path)
                phase.die()
    return weights_of(module)


def accelerate(phase: Phase) -> list[Tensor]:
    """As in its checkpointing guide: save_state, load_state, skip_first_batches."""
    from accelerate import Accelerator
    from accelerate.utils import set_seed

    set_seed(SEED)
    accelerator = Accelerator(gradient_accumulation_steps=SIZE, cpu=True)
    built = model()
    module, optimizer, batches = accelerator.prepare(built, optimizer_of(built), loader())
    first_epoch = skip = 0
    if phase.resume:
        accelerator.load_state(str(phase.folder / "state"))
        done = int((phase.folder / "done").read_text())
        first_epoch, skip = divmod(done, LENGTH)
    for epoch in range(first_epoch, EPOCHS):
        resumes = epoch == first_epoch and skip > 0
        left = accelerator.skip_first_batches(batches, skip) if resumes else batches
        for place, (x, y) in enumerate(left, skip if resumes else 0):
            with accelerator.accumulate(module):
                accelerator.backward(loss_of(module, x, y))
                optimizer.step()
                optimizer.zero_grad()
            done = epoch * LENGTH + place + 1
            if phase.ends_here(done):
                accelerator.save_state(str(phase.folder / "state"))
                (phase.folder / "done").write_text(str(done))
                phase.die()
    return weights_of(accelerator.unwrap_model(module))


def fabric(phase: Phase) -> list[Tensor]:
    """As in its guide: fabric.save and fabric.load of model, optimizer and counters."""
    from lightning.fabric import Fabric, seed_everything

    seed_everything(SEED, verbose=False)
    runner = Fabric(accelerator="cpu", devices=1)
    built = model()
    module, optimizer = runner.setup(built, optimizer_of(built))
    batches = runner.setup_dataloaders(loader())
    state: dict[str, Any] = {"model": module, "optimizer": optimizer, "done": 0}
    if phase.resume:
        runner.load(phase.folder / "checkpoint.ckpt", state)
    first_epoch, skip = divmod(state["done"], LENGTH)
    for epoch in range(first_epoch, EPOCHS):
        for place, (x, y) in enumerate(batches):
            if epoch == first_epoch and place < skip:
                continue
            ends = (place + 1) % SIZE == 0
            with runner.no_backward_sync(module, enabled=not ends):
                runner.backward(loss_of(module, x, y) / SIZE)
            if ends:
                optimizer.step()
                optimizer.zero_grad()
            state["done"] = epoch * LENGTH + place + 1
            if phase.ends_here(state["done"]):
                runner.save(phase.folder / "checkpoint.ckpt", state)
                phase.die()
    return weights_of(built)


def lightning(phase: Phase) -> list[Tensor]:
    """trainer.save_checkpoint in a callback, trainer.fit(ckpt_path=...) to go on."""
    import lightning as pl

    path = str(phase.folder / "checkpoint.ckpt")

    class Module(pl.LightningModule):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.inner = model()

        def training_step(self, batch: tuple[Tensor, Tensor], place: int) -> Tensor:
            return loss_of(self.inner, *batch)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return optimizer_of(self.inner)

    class Save(pl.Callback):  # type: ignore[misc, unused-ignore]
        def on_train_batch_end(
            self, trainer: Any, module: Any, outputs: Any, batch: Any, place: int
        ) -> None:
            if phase.ends_here(trainer.current_epoch * LENGTH + place + 1):
                trainer.save_checkpoint(path)
                phase.die()

    pl.seed_everything(SEED, verbose=False)
    module = Module()
    trainer = pl.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        devices=1,
        accumulate_grad_batches=SIZE,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[Save()],
        default_root_dir=str(phase.folder),
    )
    trainer.fit(module, loader(), ckpt_path=path if phase.resume else None)
    return weights_of(module.inner)


def transformers(phase: Phase) -> list[Tensor]:
    """Saved by its own schedule, at steps; in between only by its answer to SIGTERM."""
    from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model()

        def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
            return {"loss": loss_of(self.inner, x, labels)}

    boundary = phase.stop is not None and phase.stop % SIZE == 0

    class Stop(TrainerCallback):  # type: ignore[misc, unused-ignore]
        done = 0

        def on_substep_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._count()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._count()
            if boundary and phase.ends_here(self.done):
                control.should_save = True

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if boundary and phase.ends_here(self.done):
                phase.die()

        def _count(self) -> None:
            self.done += 1
            if not boundary and phase.ends_here(self.done):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(GRACE)

    set_seed(SEED)
    x, y = dataset().tensors
    rows = [{"x": one, "labels": other} for one, other in zip(x, y, strict=True)]
    trainer = Trainer(
        model=Wrapped(),
        args=TrainingArguments(
            output_dir=str(phase.folder),
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=BATCH,
            gradient_accumulation_steps=SIZE,
            max_grad_norm=0.0,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            weight_decay=0.01,
            optim="adamw_torch",
            seed=SEED,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            logging_strategy="no",
            use_cpu=True,
            enable_jit_checkpoint=phase.stop is not None and not boundary,
        ),
        train_dataset=rows,  # type: ignore[arg-type, unused-ignore]
        callbacks=[Stop()],
    )
    trainer.train(resume_from_checkpoint=True if phase.resume else None)
    if phase.stop is not None:
        phase.die()
    return weights_of(trainer.model.inner)  # type: ignore[union-attr, arg-type, unused-ignore]


def ignite(phase: Phase, *, deterministic: bool = False) -> list[Tensor]:
    """Its Checkpoint handler over trainer, model and optimizer; run() goes on from there."""
    from ignite.engine import Engine, Events
    from ignite.engine.deterministic import DeterministicEngine
    from ignite.handlers import Checkpoint, DiskSaver
    from ignite.utils import manual_seed

    manual_seed(SEED)
    module = model()
    optimizer = optimizer_of(module)

    def update(engine: Any, batch: tuple[Tensor, Tensor]) -> None:
        module.train()
        (loss_of(module, *batch) / SIZE).backward()
        if engine.state.iteration % SIZE == 0:
            optimizer.step()
            optimizer.zero_grad()

    trainer = (DeterministicEngine if deterministic else Engine)(update)
    kept = {"trainer": trainer, "model": module, "optimizer": optimizer}
    saver = DiskSaver(str(phase.folder), create_dir=False, require_empty=False)
    save = Checkpoint(kept, saver, n_saved=1)

    def stop(engine: Any) -> None:
        if phase.ends_here(engine.state.iteration):
            save(engine)
            phase.die()

    trainer.add_event_handler(Events.ITERATION_COMPLETED, stop)
    if phase.resume:
        (path,) = phase.folder.glob("checkpoint_*.pt")
        Checkpoint.load_objects(to_load=kept, checkpoint=torch.load(path, weights_only=False))
    # The deterministic one promises the order of batches for loaders with workers only.
    trainer.run(loader(workers=int(deterministic)), max_epochs=EPOCHS)
    return weights_of(module)


def ignite_deterministic(phase: Phase) -> list[Tensor]:
    return ignite(phase, deterministic=True)


def ours(phase: Phase) -> list[Tensor]:
    """A save is durable before the next micro-batch is handed out: it dies there."""
    from gradkeeper import Engine

    torch.manual_seed(SEED)
    module = model()
    engine = Engine(module, optimizer_of(module), checkpoint=phase.folder / "run")
    if phase.resume:
        engine.resume()
    done = 0
    for window in engine.windows(loader(), size=SIZE, epochs=EPOCHS):
        with window:
            for x, y in window:
                if phase.ends_here(done):
                    phase.die()
                window.backward(loss_of(module, x, y))
                done += 1
                if phase.ends_here(done):
                    engine.save()
    return weights_of(module)


LOOPS: dict[str, Loop] = {
    "gradkeeper": ours,
    "raw recipe": raw_recipe,
    "Accelerate": accelerate,
    "Lightning": lightning,
    "Fabric": fabric,
    "transformers.Trainer": transformers,
    "Ignite": ignite,
    "Ignite DeterministicEngine, a worker": ignite_deterministic,
}
PACKAGES = {
    "gradkeeper": "gradkeeper",
    "Accelerate": "accelerate",
    "Lightning": "lightning",
    "Fabric": "lightning",
    "transformers.Trainer": "transformers",
    "Ignite": "pytorch-ignite",
    "Ignite DeterministicEngine, a worker": "pytorch-ignite",
}
