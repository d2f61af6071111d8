"""`gradkeeper demo`: a loop that forgets zero_grad, checked, watched, and mended."""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

NAME = "demo"
HELP = "check and watch a small training loop that is wrong, then the same loop mended"

WRONG = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 8, 4):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
"""
MENDED = WRONG.replace("    loss =", "    optimizer.zero_grad()\n    loss =")


def configure(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> int:
    del args
    with tempfile.TemporaryDirectory() as folder:
        show("A loop that trains, never crashes, and is wrong:", Path(folder, "wrong.py"), WRONG)
        show("The same loop, mended:", Path(folder, "mended.py"), MENDED)
    return 0


def show(title: str, script: Path, text: str) -> None:
    """Prints a script, then what the linter says of it and what the watcher sees."""
    script.write_text(text)
    say(title, "", *(f"    {line}" for line in text.splitlines()))
    say("", f"$ gradkeeper check {script.name}    # without running it, without torch")
    gradkeeper("check", script)
    say("", f"$ gradkeeper run {script.name}      # while it runs")
    if importlib.util.find_spec("torch"):
        gradkeeper("run", script)
    else:
        say("torch is not installed here: pip install 'gradkeeper[torch]'")
    say("")


def gradkeeper(command: str, script: Path) -> None:
    words = [sys.executable, "-m", "gradkeeper", command, script.name]
    subprocess.run(words, cwd=script.parent, stderr=subprocess.STDOUT, check=False)


def say(*lines: str) -> None:
    """Flushed: the commands write to the same place by themselves."""
    print(*lines, sep="\n", flush=True)
