"""What cannot be kept is refused, by its place in the state and its type."""

from collections import defaultdict, namedtuple
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from gradkeeper.checkpoint import Store, UnkeepableError

Point = namedtuple("Point", "x y")


class Colour(IntEnum):
    RED = 1


class Masked(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (object(), "object"),
        (lambda x: x, "function"),
        ({1, 2}, "set"),
        (defaultdict(list), "collections.defaultdict"),
        (Point(1, 2), "Point"),
        (Colour.RED, "Colour"),
        (torch.nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
        (torch.eye(2).to_sparse(), "torch.sparse_coo"),
        (torch.empty(2, device="meta"), "meta device"),
        (torch.ones(2).as_subclass(Masked), "Masked"),
        (numpy.array([None]), "array of object"),
        (numpy.ma.array([1]), "numpy.ma"),
        (numpy.str_("a"), "numpy.str_"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_is_refused_by_name(tmp_path: Path, value: Any, kind: str) -> None:
    with pytest.raises(UnkeepableError) as caught:
        Store(tmp_path).save({"optimizer": {"state": [0, value]}})

    assert "state['optimizer']['state'][1]" in str(caught.value)
    assert kind in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_key_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnkeepableError, match=r"state\['a'\] has the key \(1, 2\) of type tuple"):
        Store(tmp_path).save({"a": {(1, 2): 3}})


def test_a_state_that_contains_itself_is_refused(tmp_path: Path) -> None:
    state: dict[str, Any] = {}
    state["a"] = [state]

    with pytest.raises(UnkeepableError, match="contains itself"):
        Store(tmp_path).save(state)


def test_facts_hold_no_tensors(tmp_path: Path) -> None:
    with pytest.raises(UnkeepableError, match="facts cannot hold a tensor or an array, and 'loss'"):
        Store(tmp_path).save({}, facts={"loss": torch.ones(1)})


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_a_quantized_tensor_is_refused(tmp_path: Path) -> None:
    value = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)

    with pytest.raises(UnkeepableError, match=r"state\['w'\] is a quantized tensor"):
        Store(tmp_path).save({"w": value})
