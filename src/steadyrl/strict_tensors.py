"""Named arrays as this library stores them, in the safetensors format: what the format only half forbids is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from steadyrl.strict_json import strict_object

# The format knows further ones, of less than a byte or without a NumPy counterpart; this library writes none of them.
_DTYPES = {
    "BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "F16": "<f2", "U32": "<u4", "I32": "<i4",
    "F32": "<f4", "U64": "<u8", "I64": "<i8", "F64": "<f8",
}  # fmt: skip
_KEYS = {"dtype", "shape", "data_offsets"}
_MOST_SIDES, _LARGEST = 32, 2**40  # beyond them NumPy may make no array, even of no bytes


def strict_tensors(data: bytes | bytearray, *, max_index: int) -> dict[str, npt.NDArray[Any]]:
    """The arrays in a file's content, without a copy: they lie in `data`, and can be written to where it can.

    Every byte belongs to the index or to exactly one array, and arrays begin where their numbers are aligned.

    Args:
        data: The whole file: eight bytes of the index's length, the index in strict JSON, the numbers.
        max_index: Largest size of the index.

    Raises:
        ValueError: it is something else; the text says what, in the middle of a sentence, with the array's name.
    """
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8 or size % 8:
        raise ValueError("does not begin with an index of its arrays")
    view = memoryview(data)[8:]
    try:
        index = strict_object(bytes(view[: min(size, max_index + 1)]), max_bytes=max_index)
    except ValueError as error:
        raise ValueError(f"has an index that {error}") from error
    view, at = view[size:], 0
    places = [(*_place(name, facts), name) for name, facts in index.items()]
    arrays = {}
    for start, stop, name in sorted(places):
        if start != at:
            raise ValueError(f"has a gap or an overlap before the array {name[:100]!r}")
        arrays[name] = _array(name, index[name], view, start, stop)
        at = stop
    if at != len(view):
        raise ValueError(f"has {len(view)} bytes of arrays, and its index names {at}")
    return arrays


def _place(name: str, facts: Any) -> tuple[int, int]:
    """Where an array's bytes begin and end."""
    place = facts["data_offsets"] if type(facts) is dict and facts.keys() == _KEYS else None
    if type(place) is not list or [*map(type, place)] != [int, int] or not 0 <= place[0] <= place[1]:
        raise ValueError(f"has an index that does not say where the array {name[:100]!r} lies")
    return place[0], place[1]


def _array(name: str, facts: dict[str, Any], view: memoryview, start: int, stop: int) -> npt.NDArray[Any]:
    shape, kind = facts["shape"], facts["dtype"]
    if type(kind) is not str or kind not in _DTYPES:
        raise ValueError(f"has the array {name[:100]!r} of the unknown dtype {str(kind)[:40]!r}")
    dtype = np.dtype(_DTYPES[kind])
    sides: list[Any] = shape if type(shape) is list and len(shape) <= _MOST_SIDES else [None]
    sound = all(type(side) is int and side >= 0 for side in sides)
    if not sound or math.prod(side or 1 for side in sides) > _LARGEST:
        raise ValueError(f"has the array {name[:100]!r} of the impossible shape {str(shape)[:80]}")
    if math.prod(sides) * dtype.itemsize != stop - start or start % dtype.itemsize or stop > len(view):
        raise ValueError(f"has the array {name[:100]!r}, whose shape {str(shape)[:80]} does not fit its bytes")
    array = np.frombuffer(view[start:stop], dtype=np.uint8)
    if dtype.kind == "b" and array.size and array.max() > 1:
        raise ValueError(f"has the array {name[:100]!r} of truth values that are neither")
    return array.view(dtype).reshape(sides)
