"""Values that go through JSON come back with the same bits, and what JSON cannot hold is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from steadyrl.envs.recorded import MAX_DEPTH, decoded, encoded

NAMES = ["bool", "int8", "uint8", "int32", "uint64", "int64", "float16", "float32", "float64"]


@given(hnp.arrays(st.sampled_from(NAMES), hnp.array_shapes(min_dims=0, min_side=0, max_dims=3)))
def test_arrays_come_back_bit_for_bit(array: np.ndarray) -> None:
    back = decoded(json.loads(json.dumps(encoded(array), allow_nan=False)))
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_another_byte_order_is_the_same_array() -> None:
    array = np.arange(5, dtype=">f4")
    assert decoded(encoded(array)).tolist() == [0, 1, 2, 3, 4]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(VALUES)
def test_plain_values_come_back(value: Any) -> None:
    assert decoded(json.loads(json.dumps({"x": encoded(value)}, allow_nan=False))["x"]) == value


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.Philox, np.random.MT19937, np.random.SFC64])
def test_states_of_generators_come_back(kind: Any) -> None:
    bits = kind(5)
    drawn = np.random.Generator(bits)
    drawn.integers(9, dtype=np.int32)
    state = decoded(json.loads(json.dumps(encoded(bits.state))))
    other = kind(6)
    other.state = state
    assert np.random.Generator(other).random(8).tolist() == drawn.random(8).tolist()


@pytest.mark.parametrize("value", [object(), {1: 2}, {"$type": "int"}, {1, 2}, np.array([object()]), np.array("text")])
def test_what_no_file_can_hold_is_refused_when_it_is_read(value: Any) -> None:
    told = encoded({"deep": [value]})
    json.dumps(told, allow_nan=False)
    with pytest.raises(ValueError, match="no file can hold"):
        decoded(told)


def test_what_is_too_deep_or_holds_itself_ends() -> None:
    ring: list[Any] = []
    ring.append(ring)
    deep: Any = None
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    for value in (ring, deep):
        with pytest.raises(ValueError, match="no file can hold"):
            decoded(encoded(value))


def array(**changes: Any) -> dict[str, Any]:
    return {"$type": "array", "dtype": "int16", "shape": [2], "base64": "AQACAA=="} | changes


def test_the_array_of_the_bad_cases_is_a_good_one() -> None:
    assert decoded(array()).tolist() == [1, 2]


@pytest.mark.parametrize(
    "value",
    [
        array(dtype="object"),
        array(dtype=["int16"]),
        array(shape=[3]),
        array(shape=[-1, -2]),
        array(shape=[True, 2]),
        array(shape=2),
        array(shape=[2, 10**30, 10**30]),
        array(base64="AQACAA"),
        array(base64="AQAC AA=="),
        array(base64=5),
        array(more=1),
        {"$type": "array"},
        {"$type": "int", "value": "1_0"},
        {"$type": "int", "value": 10},
        {"$type": "int", "value": "1" * 101},
        {"$type": "float", "value": "1.5"},
        {"$type": "tuple", "value": 3},
        {"$type": "module", "value": "os"},
        {"$type": ["int"], "value": "1"},
        [{"deep": {"$type": "int"}}],
    ],
)
def test_an_entry_that_nobody_wrote_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"array|type|shape|kind"):
        decoded(value)
