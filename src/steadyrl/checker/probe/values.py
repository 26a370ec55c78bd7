"""Observations, infos and actions as plain values: owned copies, exact comparison, a few words for people."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

_WORDS = 60  # characters of a value in a sentence


class Opaque:
    """Stands for an object whose content cannot be read; any two are taken to be alike."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"<{self.kind}>"


@dataclass(frozen=True)
class Difference:
    """The first place where two values differ.

    Attributes:
        path: Such as `['stock'][2]`; empty for the whole.
        one: What is there in the first, in words.
        other: What is there in the second, in words.
    """

    path: str
    one: str
    other: str

    def __str__(self) -> str:
        return f"{self.one} and {self.other}{f' at {self.path}' if self.path else ''}"


def own(value: Any, depth: int = 8) -> Any:
    """A copy of plain data that nobody else can change; an object of another kind becomes `Opaque`."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        return value
    if depth == 0:
        return Opaque(type(value).__name__)
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return [own(item, depth - 1) for item in value.ravel()]
        return value.copy()
    if isinstance(value, Mapping):
        return {key: own(item, depth - 1) for key, item in value.items()}
    if isinstance(value, tuple):
        items = [own(item, depth - 1) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list | deque):
        return [own(item, depth - 1) for item in value]
    if isinstance(value, set | frozenset):
        return frozenset(own(item, depth - 1) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: own(getattr(value, each.name, None), depth - 1) for each in fields(value)}
    return Opaque(type(value).__name__)


def difference(one: Any, other: Any, path: str = "") -> Difference | None:
    """The first difference of two values that `own` made; NaN equals NaN, and 1 equals 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            return Difference(path, f"the keys {brief(sorted(map(str, one)))}", brief(sorted(map(str, other))))
        return _first(difference(one[key], other[key], f"{path}[{key!r}]") for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return Difference(path, f"{len(one)} entries", f"{len(other)}")
        return _first(difference(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(one, other, strict=True)))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return _of_arrays(one, other, path)
    if isinstance(one, Opaque) or isinstance(other, Opaque):
        return (
            None
            if isinstance(one, Opaque) and isinstance(other, Opaque)
            else Difference(path, *map(brief, (one, other)))
        )
    try:
        same = bool(one == other) or bool(one != one and other != other)
    except (ValueError, TypeError):  # an array beside something else
        same = False
    return None if same else Difference(path, brief(one), brief(other))


def unchanged(copy: Any, value: Any) -> bool:
    """Whether a value is surely still what `own` copied; a quick look at plain data, and False where in doubt."""
    kind = type(value)
    if kind is np.ndarray:
        alike = type(copy) is np.ndarray and copy.dtype == value.dtype and copy.shape == value.shape
        return bool(alike and value.dtype != object and copy.tobytes() == value.tobytes())
    if kind is dict:
        return (
            type(copy) is dict
            and len(copy) == len(value)
            and all(key in copy and unchanged(copy[key], item) for key, item in value.items())
        )
    if kind is tuple or kind is list:
        return (
            type(copy) is kind
            and len(copy) == len(value)
            and all(unchanged(one, item) for one, item in zip(copy, value, strict=True))
        )
    return kind in _PLAIN and (copy is value or copy == value)


_PLAIN = (int, float, bool, str, bytes, type(None), np.float32, np.float64, np.int64, np.bool_)


def _first(differences: Any) -> Difference | None:
    return next((found for found in differences if found is not None), None)


def _of_arrays(one: Any, other: Any, path: str) -> Difference | None:
    if one.shape != other.shape:
        return Difference(path, f"shape {one.shape}", f"{other.shape}")
    if one.tobytes() == other.tobytes() and one.dtype == other.dtype:
        return None
    unlike = ~((one == other) | ((one != one) & (other != other)))
    if not unlike.any():
        return None
    place = tuple(int(i) for i in np.argwhere(unlike)[0])
    index = f"[{', '.join(map(str, place))}]" if place else ""
    return Difference(f"{path}{index}", brief(one[place]), brief(other[place]))


def apart(one: Any, other: Any, path: str = "") -> Difference | None:
    """As `difference`, but floats may differ by rounding: a batch is not always summed in the order of single ones."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return _first(apart(one[key], other[key], f"{path}[{key!r}]") for key in one)
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return _first(apart(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(one, other, strict=True)))
    kinds = [
        np.asarray(value).dtype.kind for value in (one, other) if isinstance(value, np.ndarray | np.generic | float)
    ]
    if "f" in kinds and np.shape(one) == np.shape(other):
        if np.allclose(one, other, rtol=1e-4, atol=1e-5, equal_nan=True):
            return None
        far = ~np.isclose(one, other, rtol=1e-4, atol=1e-5, equal_nan=True)
        return _of_arrays(np.asarray(one), np.where(far, other, one), path)
    return difference(one, other, path)


def brief(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, np.ndarray) and value.size > 6:
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    try:
        text = " ".join(str(value).split()) if isinstance(value, np.ndarray | np.generic) else repr(value)
    except Exception:  # an object's own
        return f"a {type(value).__name__}"
    return text if len(text) <= _WORDS else text[: _WORDS - 3] + "..."


def plain(value: Any) -> Any:
    """A value of evidence as JSON has it."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return brief(value)
