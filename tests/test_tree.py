"""The one walker of state."""

from collections import OrderedDict
from typing import Any

import torch

from gradkeeper.tree import NOTHING, cloned, differences, leaves, mapped, with_tensors, zipped


def state() -> dict[str, Any]:
    return {"a": [1, (2.0, torch.ones(2))], "b": {"c": None, "d": torch.zeros(1)}}


def test_leaves_come_in_their_order() -> None:
    one, two, _, none, _ = leaves(state())

    assert (one, two, none) == (1, 2.0, None)


def test_a_map_changes_parts_and_keeps_what_torch_hangs_on_a_dict() -> None:
    module = torch.nn.BatchNorm1d(2)
    saved = module.state_dict()

    made = mapped(saved, lambda one: one)

    assert type(made) is OrderedDict
    assert vars(made) == vars(saved)


def test_only_tensors_are_changed_where_that_is_asked() -> None:
    made = with_tensors(state(), lambda one: list(one.shape))

    assert made == {"a": [1, (2.0, [2])], "b": {"c": None, "d": [1]}}


def test_a_clone_shares_no_memory() -> None:
    original = state()

    copied = cloned(original)
    original["b"]["d"] += 1

    assert copied["b"]["d"] == 0


def test_several_are_zipped_part_by_part_and_the_first_counts_where_they_differ_in_length() -> None:
    def total(parts: Any) -> Any:
        return sum(parts) if isinstance(parts[0], int) else zipped(parts, total)

    assert zipped([{"a": [1, 2]}, {"a": [10, 20]}], total) == {"a": [11, 22]}
    assert zipped([{"a": [1, 2]}, {"a": [10]}], total) == {"a": [1, 2]}


def test_differences_name_the_way_there() -> None:
    saved, here = {"size": 3, "groups": [{"lr": 1}]}, {"groups": [{"lr": 2}], "new": True}

    found = list(differences(saved, here))

    assert found == [
        ("size", 3, NOTHING),
        ("groups[0] lr", 1, 2),
        ("new", NOTHING, True),
    ]
