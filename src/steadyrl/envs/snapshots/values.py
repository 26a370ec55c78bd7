"""Trees of plain values <-> strict JSON and named arrays, exact to the bit.

A value is None, a bool, int, float or str, bytes, a NumPy scalar, a NumPy array, a graph of Gymnasium's, or a list, a
tuple or a dict with str keys of these. JSON holds what it can hold exactly; the rest is one dictionary with one key
that starts with `$`:

| tag | what |
|---|---|
| `$array` | the name of an array, with its dtype, shape and memory order |
| `$scalar` | a NumPy scalar: dtype and bytes in hexadecimal |
| `$bytes` | bytes, as the name of an array of uint8 |
| `$float` | a float that JSON has no word for, its eight bytes in hexadecimal |
| `$int` | an int beyond 2^53, in decimal |
| `$tuple` | the entries of a tuple |
| `$graph` | nodes, edges and edge links of a `gymnasium.spaces.GraphInstance` |
| `$dict` | key and value pairs of a dict with a key that starts with `$` |
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import GraphInstance

from steadyrl.errors import UserError

Value = Any  # a tree of the values above; Python has no way to say it that is of use to a reader
Arrays = dict[str, npt.NDArray[Any]]

_LARGEST = 2**53  # larger ints are not exact in every reader of JSON
_KINDS = "biufcSUmM"
_PLAIN = frozenset(
    ["|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"]
)  # what safetensors stores as it is
# What `numpy.dtype.str` writes. NumPy's own reader takes far more: tuples, which it parses as Python, and units such as
# [Y/0], a division by zero that ends the process.
_DTYPE = re.compile(r"[<>|][biufcSU][0-9]{1,9}|[<>][mM]8(\[[0-9]{0,9}[A-Za-z]{1,3}\])?")
_TAGS = ("$array", "$scalar", "$bytes", "$float", "$int", "$tuple", "$graph", "$dict")


def flatten(value: Value) -> tuple[Any, Arrays]:
    """A tree as strict JSON, and its arrays by name.

    Raises:
        UserError: something in the tree is no such value; its place is named.
    """
    arrays: Arrays = {}
    return _packed(value, "", arrays), arrays


def unflatten(packed: Any, arrays: Arrays, *, whole: bool = False) -> Value:
    """The tree that `flatten` took apart.

    Args:
        packed: JSON.
        arrays: By name; each is of use once, so that a small file cannot become a large tree.
        whole: The tree is all that there is, so an array that is not of use is an error.

    Raises:
        UserError: an unknown tag, a missing array, one of another dtype or shape, or anything else that `flatten`
            does not write; the place is named.
    """
    left = dict(arrays)
    tree = _unpacked(packed, "", left)
    if whole and left:
        _damaged("", f"the array {sorted(left)[0][:80]!r}, which belongs nowhere,")
    return tree


def digest(value: Value) -> str:
    """A hash of a tree, 128 bits in hexadecimal; equal for equal trees, dtypes and signs of zero included."""
    packed, arrays = flatten(value)
    hashed = hashlib.blake2b(json.dumps(packed, allow_nan=False, separators=(",", ":")).encode(), digest_size=16)
    for array in arrays.values():
        hashed.update(array.data if array.size else b"")
    return hashed.hexdigest()


def _packed(value: Value, place: str, arrays: Arrays) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -_LARGEST <= value <= _LARGEST else {"$int": str(value)}
    if kind is float:
        return value if math.isfinite(value) else {"$float": struct.pack("<d", value).hex()}
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise _no_value(place, f"a dictionary with the key {key!r}, which is no str")
        if any(key.startswith("$") for key in value):
            return {"$dict": [[key, _packed(entry, f"{place}/{key}", arrays)] for key, entry in value.items()]}
        return {key: _packed(entry, f"{place}/{key}", arrays) for key, entry in value.items()}
    if kind is list:
        return [_packed(entry, f"{place}/{i}", arrays) for i, entry in enumerate(value)]
    if kind is tuple or kind is GraphInstance:
        tag = "$tuple" if kind is tuple else "$graph"
        return {tag: [_packed(entry, f"{place}/{i}", arrays) for i, entry in enumerate(value)]}
    if kind is np.ndarray:
        return _packed_array(value, place, arrays)
    if isinstance(value, np.generic) and storable(value.dtype):
        return {"$scalar": [value.dtype.str, value.tobytes().hex()]}
    if kind is bytes:
        return {"$bytes": _named(np.frombuffer(value, dtype=np.uint8), place, arrays)}
    raise _no_value(place, f"a {kind.__module__}.{kind.__qualname__}")


def storable(dtype: np.dtype[Any]) -> bool:
    """Whether entries of this dtype are bytes without meaning elsewhere, of the same size on every machine."""
    return dtype.kind in _KINDS and dtype.names is None and dtype.char not in "gG"


def _packed_array(array: npt.NDArray[Any], place: str, arrays: Arrays) -> dict[str, Any]:
    if not storable(array.dtype):
        raise _no_value(place, f"an array of dtype {array.dtype}")
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    flat = np.ascontiguousarray(array.T if fortran else array).reshape(-1)
    stored = flat if flat.dtype.str in _PLAIN else np.frombuffer(flat.tobytes(), dtype=np.uint8)
    node: dict[str, Any] = {
        "$array": _named(stored, place, arrays),
        "dtype": array.dtype.str,
        "shape": list(array.shape),
    }
    if fortran:
        node["order"] = "F"
    if not array.flags.writeable:
        node["readonly"] = True
    return node


def _named(array: npt.NDArray[Any], place: str, arrays: Arrays) -> str:
    name = place.lstrip("/") or "value"
    while name in arrays:  # a key with a slash in it may look like another place
        name += "'"
    arrays[name] = array
    return name


def _unpacked(packed: Any, place: str, arrays: Arrays) -> Value:
    kind = type(packed)
    if packed is None or kind in (bool, str, int):
        return packed
    if kind is float:
        return packed if math.isfinite(packed) else _damaged(place, "a float that JSON has no word for")
    if kind is list:
        return [_unpacked(entry, f"{place}/{i}", arrays) for i, entry in enumerate(packed)]
    if kind is not dict:
        _damaged(place, f"a {kind.__name__}")
    tag = next((key for key in packed if type(key) is str and key.startswith("$")), None)
    if tag is None:
        return {key: _unpacked(entry, f"{place}/{key}", arrays) for key, entry in packed.items()}
    if tag not in _TAGS or (tag != "$array" and len(packed) > 1):
        _damaged(place, f"the unknown tag {tag!r}")
    try:
        return _untagged(tag, packed, place, arrays)
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, struct.error) as error:
        _damaged(place, f"a damaged {tag} ({error})")


def _untagged(tag: str, packed: dict[str, Any], place: str, arrays: Arrays) -> Value:
    content = packed[tag]
    if tag == "$array":
        return _unpacked_array(packed, place, arrays)
    if tag == "$scalar":
        name, text = content
        dtype = _dtype(name, place)
        return np.frombuffer(bytes.fromhex(text), dtype=dtype, count=1)[0] if dtype.itemsize else dtype.type()
    if tag == "$bytes":
        return _array(content, place, arrays, np.dtype(np.uint8)).tobytes()
    if tag == "$float":
        return struct.unpack("<d", bytes.fromhex(content))[0]
    if tag == "$int":
        return int(content) if type(content) is str else _damaged(place, "an $int that is no text")
    if type(content) is not list:
        _damaged(place, f"a {tag} that is no list")
    if tag == "$graph":
        return GraphInstance(*(_unpacked(entry, f"{place}/{i}", arrays) for i, entry in enumerate(content)))
    if tag == "$tuple":
        return tuple(_unpacked(entry, f"{place}/{i}", arrays) for i, entry in enumerate(content))
    return {_key(key, place): _unpacked(entry, f"{place}/{key}", arrays) for key, entry in content}


def _unpacked_array(packed: dict[str, Any], place: str, arrays: Arrays) -> npt.NDArray[Any]:
    unknown = packed.keys() - {"$array", "dtype", "shape", "order", "readonly"}
    if unknown:
        _damaged(place, f"an array with the unknown key {sorted(unknown)[0]!r}")
    dtype, shape = _dtype(packed["dtype"], place), packed["shape"]
    if type(shape) is not list or not all(type(n) is int and n >= 0 for n in shape):
        _damaged(place, f"the shape {shape!r}")
    stored = _array(packed["$array"], place, arrays, dtype if dtype.str in _PLAIN else np.dtype(np.uint8))
    flat = stored.reshape(-1).view(dtype) if dtype.itemsize else np.zeros(0, dtype)
    if flat.size != math.prod(shape):
        _damaged(place, f"{flat.size} entries for the shape {shape}")
    fortran = packed.get("order") == "F"
    # An array of its own, as the state may be restored twice, and aligned for its dtype.
    array = (flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)).copy(order="F" if fortran else "C")
    array.flags.writeable = packed.get("readonly") is not True
    return array


def _array(name: Any, place: str, arrays: Arrays, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    array = arrays.pop(name, None) if type(name) is str else None
    if array is None:
        _damaged(place, f"the array {str(name)[:80]!r}, which is missing or used twice,")
    if array.dtype != dtype:
        _damaged(place, f"the array {name!r} of dtype {array.dtype} instead of {dtype}")
    return array


def _dtype(name: Any, place: str) -> np.dtype[Any]:
    dtype = None
    if type(name) is str and _DTYPE.fullmatch(name):
        with suppress(TypeError):
            dtype = np.dtype(name)
    if dtype is None or not storable(dtype) or dtype.str != name:
        _damaged(place, f"the dtype {str(name)[:80]!r}")
    return dtype


def _key(key: Any, place: str) -> str:
    return key if type(key) is str else _damaged(place, f"the key {key!r}, which is no str")


def _damaged(place: str, what: str) -> NoReturn:
    raise UserError(
        f"The stored state has {what} at '{place or '/'}'.",
        remedy="It was damaged or written by another version: use another checkpoint.",
        code="state-damaged",
    )


def _no_value(place: str, what: str) -> UserError:
    return UserError(
        f"The state has {what} at '{place or '/'}', which cannot be stored.",
        remedy="Use None, bool, int, float, str, bytes, NumPy scalars and arrays, and lists, tuples and dictionaries "
        "with str keys of these.",
        code="state-value",
    )
