"""What goes in comes out, bit for bit, from a disk and from a URL."""

import math
import random
import struct
from collections import Counter, OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradkeeper.checkpoint import Store
from tests.checkpoint.same import same

NAMES = """
bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64
complex32 complex64 complex128 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e8m0fnu
float4_e2m1fn_x2
"""
DTYPES = [getattr(torch, name) for name in NAMES.split() if hasattr(torch, name)]


def tensor(dtype: torch.dtype, shape: list[int], seed: int) -> torch.Tensor:
    """Any bits at all, except for bools, of which torch knows only two."""
    size = torch.empty(0, dtype=dtype).itemsize
    generator = torch.Generator().manual_seed(seed)
    most = 2 if dtype is torch.bool else 256
    count = math.prod(shape) * size
    bits = torch.randint(0, most, (count,), dtype=torch.uint8, generator=generator)
    return bits.view(dtype).reshape(shape)


def any_float(bits: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value


tensors = st.builds(
    tensor,
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 3), max_size=4),
    st.integers(0, 1000),
)
arrays = st.builds(
    lambda kind, bits: numpy.frombuffer(bits, dtype=kind).copy(),
    st.sampled_from(["<u4", ">u4", "<f2", "<f8", "i1", "<c16", ">i8"]),
    st.binary(max_size=4).map(lambda bits: bits * 16),
)
floats = st.integers(0, 2**64 - 1).map(any_float)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(1, 40000).map(lambda bits: -(2**bits) + 1),
    floats,
    st.builds(complex, floats, floats),
    st.text(),
    st.text(st.characters(min_codepoint=0xD7F0, max_codepoint=0xE00F)),
    st.binary(),
    floats.map(numpy.float64),
    st.integers(-100, 100).map(numpy.int8),
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 9)).map(torch.Size),
)
keys = st.one_of(
    st.text(),
    st.integers(),
    st.integers(15000, 16000).map(lambda n: 1 << n),
    st.sampled_from(["$dict", "$tensor", "a.b", "", "a"]),
)
states = st.recursive(
    scalars | tensors | arrays,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4).map(OrderedDict),
    ),
    max_leaves=12,
)


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "disk":
        yield Store(tmp_path / "run")
        return
    import fsspec  # type: ignore[import-untyped]

    yield Store("memory://round-trip/run")
    fsspec.filesystem("memory").rm("/round-trip", recursive=True)


def again(store: Store, state: Any) -> Any:
    store.save(state)
    found = store.load()
    assert found is not None
    return found.state


# torch says so once, when it makes the first one.
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(state=states)
def test_any_state_comes_back_bit_for_bit(store: Store, state: Any) -> None:
    assert same(again(store, state), state)


def test_the_oracle_notices_one_bit() -> None:
    assert not same([0.0], [-0.0])
    assert not same({"w": torch.zeros(2)}, {"w": torch.tensor([0.0, -0.0])})
    assert not same((1,), [1])
    assert not same({"a": 1, "b": 2}, {"b": 2, "a": 1})


def test_every_generator_of_random_numbers_goes_on_as_it_would_have(store: Store) -> None:
    fancy = numpy.random.default_rng(7)
    state = {
        "python": random.getstate(),
        "numpy": numpy.random.get_state(),
        "torch": torch.get_rng_state(),
        "generator": torch.Generator().get_state(),
        "numpy generator": fancy.bit_generator.state,
    }

    found = again(store, state)

    expected = random.random(), numpy.random.rand(), torch.rand(3), fancy.random()
    random.setstate(found["python"])
    numpy.random.set_state(found["numpy"])
    torch.set_rng_state(found["torch"])
    fancy.bit_generator.state = found["numpy generator"]
    drawn = random.random(), numpy.random.rand(), torch.rand(3), fancy.random()
    assert same(drawn, expected)


def test_a_module_keeps_the_versions_that_hang_on_its_state(store: Store) -> None:
    state = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).state_dict()

    found = again(store, state)

    assert type(found) is OrderedDict
    assert found._metadata == state._metadata  # type: ignore[attr-defined]


def test_a_counter_stays_one(store: Store) -> None:
    assert same(again(store, Counter({30: 1, 80: 2})), Counter({30: 1, 80: 2}))


def test_what_is_loaded_can_be_written_to(store: Store) -> None:
    found = again(store, {"tensor": torch.zeros(2), "array": numpy.zeros(2)})

    found["tensor"] += 1
    found["array"] += 1

    assert same(found, {"tensor": torch.ones(2), "array": numpy.ones(2)})


def test_a_loaded_state_is_saved_and_loaded_again(store: Store) -> None:
    base = torch.arange(6.0)
    state = {"a": base[:4], "b": base[2:], "random": random.getstate()}

    twice = again(store, again(store, state))

    assert same(twice, state)


def test_any_reader_of_safetensors_can_open_the_tensors(tmp_path: Path) -> None:
    state = {"w": torch.randn(3, 2), "half": torch.randn(5).bfloat16(), "n": torch.tensor(3)}

    name = Store(tmp_path).save(state)

    found = safetensors.torch.load_file(tmp_path / name / "tensors.safetensors")
    assert found.keys() == state.keys()
    assert all(same(found[name], state[name]) for name in state)
