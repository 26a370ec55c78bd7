"""Values as strict JSON that gives back the same bits: arrays, NumPy's numbers, large integers, tuples."""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

import numpy as np

MAX_DEPTH = 32
_TAG = "$type"
_EXACT = 2**53  # larger integers do not survive the programs that read numbers as doubles
_DTYPES = {name: np.dtype(name).newbyteorder("<") for name in ("bool", "float16", "float32", "float64")} | {
    f"{sign}int{bits}": np.dtype(f"{sign}int{bits}").newbyteorder("<") for sign in ("", "u") for bits in (8, 16, 32, 64)
}


def encoded(value: Any, depth: int = MAX_DEPTH) -> Any:
    """The value in JSON; what has no such form is told as `unknown`, and refused by `decoded`."""
    if depth == 0:
        return _unknown(value)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) < _EXACT else {_TAG: "int", "value": str(value)}
    if isinstance(value, float) and not isinstance(value, np.generic):
        return value if math.isfinite(value) else {_TAG: "float", "value": str(value)}
    if isinstance(value, np.ndarray | np.generic):
        return _array(np.asarray(value))
    if isinstance(value, dict):
        if all(type(key) is str and key != _TAG for key in value):
            return {key: encoded(item, depth - 1) for key, item in value.items()}
        return _unknown(value)
    if isinstance(value, list | tuple):
        items = [encoded(item, depth - 1) for item in value]
        return items if isinstance(value, list) else {_TAG: "tuple", "value": items}
    return _unknown(value)


def decoded(value: Any) -> Any:
    """What `encoded` was given.

    Raises:
        ValueError: it is nothing that `encoded` makes, or stands for a value that no file can hold.
    """
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _TAG not in value:
        return {key: decoded(item) for key, item in value.items()}
    kind, told = value[_TAG], value.get("value")
    if kind == "array" and value.keys() == {_TAG, "dtype", "shape", "base64"}:
        return _array_back(value["dtype"], value["shape"], value["base64"])
    if value.keys() == {_TAG, "value"}:
        if kind == "int" and isinstance(told, str) and len(told) <= 100 and told.removeprefix("-").isdecimal():
            return int(told)
        if kind == "float" and told in ("nan", "inf", "-inf"):
            return float(told)
        if kind == "tuple" and isinstance(told, list):
            return tuple(decoded(item) for item in told)
        if kind == "unknown":
            raise ValueError(f"it holds {told}, which no file can hold")
    raise ValueError(f"it holds an entry of an unknown kind, {str(kind)[:40]!r}")


def _array(array: Any) -> dict[str, Any]:
    if array.dtype.name not in _DTYPES:
        return _unknown(array)
    data = np.ascontiguousarray(array).astype(_DTYPES[array.dtype.name]).tobytes()
    text = base64.b64encode(data).decode()
    return {_TAG: "array", "dtype": array.dtype.name, "shape": list(array.shape), "base64": text}


def _array_back(dtype: Any, shape: Any, text: Any) -> Any:
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ValueError(f"{str(dtype)[:40]!r} is no element type")
    if not isinstance(shape, list) or len(shape) > MAX_DEPTH or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"{str(shape)[:80]} is no shape")
    if not isinstance(text, str):
        raise ValueError("the content of an array is not base64")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"the content of an array is not base64 ({error})") from None
    if len(data) != math.prod(shape) * _DTYPES[dtype].itemsize:
        raise ValueError(f"an array of {len(data)} bytes is not {dtype} of shape {shape}")
    return np.frombuffer(data, dtype=_DTYPES[dtype]).reshape(shape).astype(dtype)[()]


def _unknown(value: Any) -> dict[str, Any]:
    return {_TAG: "unknown", "value": f"a {type(value).__name__}"}
