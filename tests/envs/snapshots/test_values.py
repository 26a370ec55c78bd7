"""Plain values survive JSON to the bit, and nothing else is stored or read."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, Graph, GraphInstance
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from steadyrl.envs.snapshots.values import digest, flatten, unflatten
from steadyrl.errors import UserError

KEYS = st.text(max_size=4) | st.sampled_from(["$array", "$x", "~ref", "a/b", ""])
DTYPES = st.sampled_from(["f8", "f4", "f2", "i8", "u1", "?", "u8", "c16", "S3", "U2", ">f8", "M8[s]", "i2"])
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5) | ARRAYS
    | ARRAYS.filter(lambda a: a.size > 0).map(lambda a: a.reshape(-1)[0])
)  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=12,
)


def through(value: Any) -> Any:
    packed, arrays = flatten(value)
    return unflatten(json.loads(json.dumps(packed, allow_nan=False)), arrays)


def assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, np.ndarray | np.generic):
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        if isinstance(one, np.ndarray):
            assert one.flags.writeable == other.flags.writeable
    elif isinstance(one, float):
        assert (one == other and math.copysign(1, one) == math.copysign(1, other)) or (one != one and other != other)
    else:
        assert one == other


@pytest.mark.parametrize("edges", [True, False])
def test_graphs_survive(edges: bool) -> None:
    space = Graph(Box(0, 1, (2,)), Discrete(3) if edges else None, seed=1)
    for _ in range(5):
        graph = space.sample()
        again = through({"last": (graph, [graph])})["last"]
        assert type(again[0]) is GraphInstance
        assert_same(tuple(again[0]), tuple(graph))
        assert space.contains(again[1][0])
    packed, arrays = flatten(GraphInstance(np.zeros((1, 2)), None, None))
    for wrong in (packed["$graph"][:2], [*packed["$graph"], None], "abc"):
        with pytest.raises(UserError, match=r"damaged \$graph|a \$graph that is no list"):
            unflatten({"$graph": wrong}, arrays)


@given(VALUES)
def test_every_value_survives_to_the_bit(value: Any) -> None:
    assert_same(through(value), value)
    assert digest(through(value)) == digest(value)


def test_what_json_has_no_word_for_survives() -> None:
    big = 2**127 + 1
    readonly = np.arange(3)
    readonly.flags.writeable = False
    fortran = np.asfortranarray(np.arange(6).reshape(2, 3))
    again = through([math.nan, -math.inf, -0.0, big, -(2**53) - 1, readonly, fortran])
    assert math.isnan(again[0])
    assert again[1:2] == [-math.inf]
    assert math.copysign(1, again[2]) == -1
    assert again[3:5] == [big, -(2**53) - 1]
    assert not again[5].flags.writeable
    assert again[6].flags.f_contiguous
    assert not again[6].flags.c_contiguous


def test_what_is_read_belongs_to_the_reader() -> None:
    packed, arrays = flatten({"x": np.zeros(2)})
    unflatten(packed, arrays)["x"][:] = 1.0
    assert unflatten(packed, arrays)["x"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, object()]}, "/a/1"),
        ({"a": {1: 2}}, "/a"),
        ({"a": {1, 2}}, "/a"),
        (np.array([object()]), "'/'"),
        ({"t": (np.zeros(1, dtype=[("x", "f8")]),)}, "/t/0"),
        (np.longdouble(1), "'/'"),
    ],
)
def test_anything_else_is_refused_with_its_place(value: Any, place: str) -> None:
    with pytest.raises(UserError) as raised:
        flatten(value)
    assert place in raised.value.message


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        ({"a": {"$pickle": "x"}}, "unknown tag '$pickle'"),
        ({"a": {"$array": "b", "dtype": "<f8", "shape": [2]}}, "the array 'b', which is missing"),
        ({"a": {"$array": "x", "dtype": "<f4", "shape": [2]}}, "of dtype float64 instead of float32"),
        ({"a": {"$array": "x", "dtype": "<f8", "shape": [3]}}, "2 entries for the shape [3]"),
        ({"a": {"$array": "x", "dtype": "<f8", "shape": [-2]}}, "the shape [-2]"),
        ({"a": {"$array": "x", "dtype": "|O", "shape": [2]}}, "the dtype '|O'"),
        ({"a": {"$array": "x", "dtype": "(1,<f8", "shape": [2]}}, "the dtype '(1,<f8'"),  # a SyntaxError in NumPy
        ({"a": {"$array": "x", "dtype": "<M8[s/0]", "shape": [2]}}, "the dtype '<M8[s/0]'"),  # ends the process
        ({"a": {"$array": "x", "dtype": "<f7", "shape": [2]}}, "the dtype '<f7'"),
        ({"a": {"$array": "x", "dtype": "<f8", "shape": [2], "more": 1}}, "unknown key 'more'"),
        ({"a": {"$array": "x", "dtype": "<f8"}}, "damaged $array"),
        ({"a": {"$float": "00"}}, "damaged $float"),
        ({"a": {"$scalar": ["<f8", ""]}}, "damaged $scalar"),
        ({"a": {"$int": 5}}, "an $int that is no text"),
        ({"a": {"$tuple": 5}}, "a $tuple that is no list"),
        ({"a": {"$tuple": [], "b": 1}}, "unknown tag '$tuple'"),
        ({"a": {"$dict": [[1, 2]]}}, "the key 1"),
        ({"a": {"$bytes": "x"}}, "of dtype float64 instead of uint8"),
        ({"a": math.nan}, "a float"),
        ({"a": object()}, "a object"),
    ],
)
def test_what_flatten_does_not_write_is_refused_with_its_place(packed: Any, words: str) -> None:
    with pytest.raises(UserError) as raised:
        unflatten(packed, {"x": np.zeros(2)})
    assert words in raised.value.message
    assert "'/a'" in raised.value.message


@pytest.mark.parametrize(
    ("one", "other"),
    [(0.0, -0.0), (1, 1.0), (1, True), (np.float32(1), np.float64(1)), ([1], (1,)), (np.zeros(2), np.zeros((2, 1)))],
)
def test_the_hash_tells_apart_what_compares_equal(one: Any, other: Any) -> None:
    assert digest(one) != digest(other)
