"""Tensors that share memory, or show it in an order of their own."""

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from gradkeeper.checkpoint import Store, WriteBehind
from tests.checkpoint.same import same


def again(folder: Path, state: Any) -> Any:
    store = Store(folder)
    store.save(state)
    found = store.load()
    assert found is not None
    return found.state


def size_on_disk(folder: Path) -> int:
    return next(folder.glob("*/tensors.safetensors")).stat().st_size


def test_tied_weights_come_back_as_one_tensor_and_are_written_once(tmp_path: Path) -> None:
    weight = torch.randn(100, 100)

    found = again(tmp_path, {"in": weight, "out": weight.detach(), "list": [weight]})

    assert found["in"] is found["out"] is found["list"][0]
    assert size_on_disk(tmp_path) < 1.1 * weight.nbytes


def test_overlapping_slices_still_overlap(tmp_path: Path) -> None:
    base = torch.arange(10.0)

    found = again(tmp_path, {"left": base[:6], "right": base[4:]})

    assert same(found, {"left": base[:6], "right": base[4:]})
    found["left"][4] = -1.0
    assert found["right"][0] == -1.0


def test_neighbours_in_one_buffer_come_back_apart(tmp_path: Path) -> None:
    base = torch.arange(10.0)

    found = again(tmp_path, {"left": base[:5], "right": base[5:]})

    left, right = (found[name].untyped_storage() for name in ("left", "right"))
    assert left.data_ptr() != right.data_ptr()
    assert left.nbytes() == 5 * 4


def test_a_view_of_another_type_still_shows_the_same_memory(tmp_path: Path) -> None:
    base = torch.randn(9, dtype=torch.float64)[1:]
    odd = base.view(torch.int16)[3:]

    found = again(tmp_path, {"odd": odd, "whole": base})

    assert same(found, {"odd": odd, "whole": base})
    found["whole"].zero_()
    assert not found["odd"].any()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
        torch.randn(3, 4).t(),
        torch.randn(2, 3, 4).permute(2, 0, 1),
    ],
    ids=["channels last", "transposed", "permuted"],
)
def test_strides_are_kept(tmp_path: Path, tensor: torch.Tensor) -> None:
    found = again(tmp_path, tensor)

    assert same(found, tensor)
    assert found.stride() == tensor.stride()


def test_of_a_column_only_the_column_is_written(tmp_path: Path) -> None:
    column = torch.randn(1000, 1000)[:, 3]

    found = again(tmp_path, {"column": column})

    assert same(found, {"column": column})
    assert size_on_disk(tmp_path) < 10_000


def test_two_columns_of_one_matrix_stay_apart(tmp_path: Path) -> None:
    matrix = torch.randn(5, 4)
    state = {"a": matrix[:, 0], "b": matrix[:, 2]}

    assert same(again(tmp_path, state), state)


def test_expanded_conjugated_and_negated_tensors_keep_their_values(tmp_path: Path) -> None:
    numbers = torch.randn(4, dtype=torch.complex64)
    state = {
        "expanded": torch.randn(1, 3).expand(4, 3),
        "conjugated": numbers.conj(),
        "negated": numbers.conj().imag,
        "numbers": numbers,
    }

    assert same(again(tmp_path, state), state)


def test_a_parameter_comes_back_as_a_plain_tensor(tmp_path: Path) -> None:
    parameter = torch.nn.Parameter(torch.randn(3))

    found = again(tmp_path, parameter)

    assert same(found, parameter.detach())
    assert not found.requires_grad


def test_two_arrays_within_one_memory_keep_their_values(tmp_path: Path) -> None:
    array = numpy.arange(12.0)
    state = {"a": torch.from_numpy(array[:7])[1:], "b": torch.from_numpy(array)[3:]}

    assert same(again(tmp_path, state), state)


def test_a_default_device_changes_nothing(tmp_path: Path) -> None:
    state = {"w": torch.randn(3), "array": numpy.ones(2)}

    with torch.device("meta"):
        found = again(tmp_path, state)
        with WriteBehind(Store(tmp_path / "behind")) as writer:
            writer.save(state)
        later = Store(tmp_path / "behind").load()

    assert same(found, state)
    assert later is not None
    assert same(later.state, state)
