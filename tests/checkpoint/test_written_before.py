"""A checkpoint that version 0.1.0 wrote is read, and the same state is still written alike.

Made once: `Store(FOLDER).save(state(), facts=FACTS)`.
"""

import json
import math
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import numpy
import torch

from gradkeeper.checkpoint import Store
from tests.checkpoint.same import same

FOLDER = Path(__file__).with_name("written_before")
FACTS = {"steps": {"optimizer": 7}, "window": "closed", "loss": math.inf}


def state() -> dict[str, Any]:
    """One of each kind that a checkpoint can hold, and tensors that share their memory."""
    weight = torch.arange(12, dtype=torch.float32).reshape(3, 4) / 7
    modules: Any = OrderedDict(weight=weight, tied=weight, column=weight[:, 1])
    modules._metadata = OrderedDict({"": {"version": 1}})
    return {
        "modules": modules,
        "channels_last": torch.arange(48.0).reshape(1, 3, 4, 4).to(memory_format=CHANNELS_LAST),
        "kinds": [torch.arange(3).to(dtype) for dtype in DTYPES],
        "nothing": torch.empty(0, 3),
        "array": numpy.arange(6, dtype=">i4").reshape(2, 3),
        "scalar": numpy.float32(0.1),
        "numbers": [0, -1, 2**63, -(2**200), 0.1, -0.0, math.nan, -math.inf, 1 + 2j],
        "words": ["", "é", "\udc80", b"\x00\xff", None, True],
        "keys": {0: "int", None: "none", "$dict": "dollar", 0.5: "float"},
        "tuple": (1, (2, ()), torch.Size([2, 3])),
        "milestones": Counter({30: 1, 60: 2}),
        "names": [torch.float16, torch.device("cpu")],
    }


CHANNELS_LAST = torch.channels_last
DTYPES = [torch.bfloat16, torch.float64, torch.int8, torch.bool, torch.complex128]


def test_it_is_read_as_it_was() -> None:
    found = Store(FOLDER).load()

    assert found is not None
    assert same(found.state, state())
    assert found.facts == FACTS
    modules = found.state["modules"]
    assert modules["tied"] is modules["weight"]
    assert modules["column"].untyped_storage().data_ptr() == modules["weight"].data_ptr()
    assert modules._metadata == {"": {"version": 1}}
    assert found.state["channels_last"].is_contiguous(memory_format=CHANNELS_LAST)


def test_the_same_state_is_written_alike(tmp_path: Path) -> None:
    name = Store(tmp_path).save(state(), facts=FACTS)

    written, before = tmp_path / name, FOLDER / "save-000001"
    tensors = "tensors.safetensors"
    assert (written / tensors).read_bytes() == (before / tensors).read_bytes()
    assert body_of(written) == body_of(before)


def body_of(folder: Path) -> dict[str, Any]:
    """All that is the same at any time, on any machine."""
    body: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return {key: one for key, one in body.items() if key not in ("saved", "versions", "sha256")}
