"""Arrays of a safetensors file: what the library itself reads, or a refusal that says what and where."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors import SafetensorError
from safetensors.numpy import load, save

from steadyrl.strict_tensors import strict_tensors
from support.fuzz import mutated, mutated_json

ARRAYS: dict[str, npt.NDArray[Any]] = {
    "f": np.arange(6, dtype=np.float32).reshape(2, 3),
    "none": np.zeros((0, 4), dtype=np.float64),
    "one": np.array(7, dtype=np.int64),
    "b": np.array([True, False]),
    "u": np.arange(3, dtype=np.uint8),
    "h": np.array([0.5], dtype=np.float16),
}
GOOD = save(ARRAYS)
MOST = 10_000


def index_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def joined(index: Any, rest: bytes) -> bytes:
    text = json.dumps(index).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + rest


def facts(**changes: Any) -> bytes:
    """The good file with other facts of the array `f`."""
    index, rest = index_of(GOOD)
    return joined(index | {"f": index["f"] | changes}, rest)


def test_what_the_library_writes_is_read() -> None:
    found = strict_tensors(GOOD, max_index=MOST)
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
    assert strict_tensors(save({}), max_index=MOST) == {}
    index, rest = index_of(GOOD)
    assert strict_tensors(joined(dict(reversed(index.items())), rest), max_index=MOST).keys() == ARRAYS.keys()


def test_arrays_lie_in_what_was_given() -> None:
    data = bytearray(GOOD)
    found = strict_tensors(data, max_index=MOST)
    found["u"][:] = 200
    assert strict_tensors(data, max_index=MOST)["u"].tolist() == [200, 200, 200]
    assert not strict_tensors(GOOD, max_index=MOST)["u"].flags.writeable


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "does not begin with an index of its arrays"),
        (bytes(7), "does not begin with an index"),
        (bytes(8), "has an index that is not strict JSON"),
        ((16).to_bytes(8, "little") + b"{}      ", "does not begin with an index"),
        ((2).to_bytes(8, "little") + b"{}", "does not begin with an index"),
        (joined([], b""), "has an index that is not an object"),
        (GOOD + b"\0", "has 40 bytes of arrays, and its index names 39"),
        (GOOD[:-1], "'b', whose shape [2] does not fit its bytes"),
        (joined({"a": 1}, b""), "does not say where the array 'a' lies"),
        (facts(more=1), "does not say where the array 'f' lies"),
        (facts(data_offsets=[0]), "does not say where the array 'f' lies"),
        (facts(data_offsets=[0, True]), "does not say where the array 'f' lies"),
        (facts(data_offsets=[-8, 24]), "does not say where the array 'f' lies"),
        (facts(data_offsets=[40, 8]), "does not say where the array 'f' lies"),
        (facts(data_offsets=[8, 24]), "'f', whose shape [2, 3] does not fit its bytes"),
        (facts(dtype="BF16"), "'f' of the unknown dtype 'BF16'"),
        (facts(dtype=["F32"]), "'f' of the unknown dtype"),
        (facts(dtype="I64"), "'f', whose shape [2, 3] does not fit its bytes"),
        (facts(shape=[2, 4]), "'f', whose shape [2, 4] does not fit its bytes"),
        (facts(shape=6), "'f' of the impossible shape 6"),
        (facts(shape=[-2, -3]), "'f' of the impossible shape [-2, -3]"),
        (facts(shape=[6.0]), "'f' of the impossible shape [6.0]"),
        (facts(shape=[6, True]), "'f' of the impossible shape [6, True]"),
        (facts(shape=[1] * 33), "'f' of the impossible shape"),
        (facts(shape=[2**41, 0]), "'f' of the impossible shape"),
        (
            joined({"a": {"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]}}, b"\1\2"),
            "truth values that are neither",
        ),
        (
            joined(
                {
                    "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
                    "b": {"dtype": "U16", "shape": [1], "data_offsets": [1, 3]},
                },
                b"123",
            ),
            "'b', whose shape [1] does not fit its bytes",
        ),
        (
            joined({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}, b"12"),
            "a gap or an overlap before the array 'a'",
        ),
        (
            joined(
                {
                    "a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
                    "b": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]},
                },
                b"12",
            ),
            "a gap or an overlap before the array 'b'",
        ),
        (
            joined({"a": {"dtype": "F64", "shape": [0, 2**40, 2**40], "data_offsets": [0, 0]}}, b""),
            "'a' of the impossible shape",
        ),
    ],
)
def test_anything_else_is_refused(data: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=r"^(has|does)") as caught:
        strict_tensors(data, max_index=MOST)
    assert told in str(caught.value)
    assert len(str(caught.value)) < 600


def test_shapes_as_wide_as_may_be() -> None:
    """The limits themselves are allowed."""
    wide = joined({"a": {"dtype": "U8", "shape": [2**40, 0], "data_offsets": [0, 0]}}, b"")
    assert strict_tensors(wide, max_index=MOST)["a"].shape == (2**40, 0)
    deep = joined({"a": {"dtype": "U8", "shape": [1] * 32, "data_offsets": [0, 1]}}, b"x")
    assert strict_tensors(deep, max_index=MOST)["a"].ndim == 32
    size = int.from_bytes(GOOD[:8], "little")
    assert strict_tensors(GOOD, max_index=size)
    with pytest.raises(ValueError, match=f"larger than {size - 1} bytes"):
        strict_tensors(GOOD, max_index=size - 1)


def test_what_is_taken_is_what_the_library_reads() -> None:
    """Over mutated files: never other numbers than those of the format's own reader."""
    draw, taken = random.Random(5), 0
    index, rest = index_of(GOOD)
    for _ in range(3000):
        text = mutated_json(json.dumps(index).encode(), draw)
        text += b" " * (-len(text) % 8)
        data = len(text).to_bytes(8, "little") + text + rest if draw.random() < 0.5 else mutated(GOOD, draw)
        try:
            found = strict_tensors(data, max_index=MOST)
        except ValueError:
            continue
        taken += 1
        try:
            expected = load(data)
        except SafetensorError as error:
            raise AssertionError(f"{data!r} is refused by the library: {error}") from error
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, strict=True)
    assert taken > 30
