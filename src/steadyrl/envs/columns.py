"""The actions of an episode as arrays, in the dictionaries and tuples that their space has, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from steadyrl.envs.recorded import MAX_DEPTH
from steadyrl.envs.trace import MAX_ACTIONS


def columns(actions: list[Any]) -> Any:
    """Arrays [T, ...] in the structure of one action; a structured array's fields become a dictionary.

    Raises:
        ValueError: the actions have no common structure, type or shape, or there are no numbers in them.
    """
    if not actions:
        return np.zeros(0)
    first = actions[0]
    names = getattr(getattr(first, "dtype", None), "names", None)
    if names:
        return {name: columns([action[name] for action in actions]) for name in names}
    if (
        type(first) is dict
        and first
        and all(type(action) is dict and action.keys() == first.keys() for action in actions)
    ):
        return {key: columns([action[key] for action in actions]) for key in first}
    if (
        type(first) is tuple
        and first
        and all(type(action) is tuple and len(action) == len(first) for action in actions)
    ):
        return tuple(columns([action[i] for action in actions]) for i in range(len(first)))
    parts = [np.asarray(action) for action in actions]
    if len({(part.dtype, part.shape) for part in parts}) > 1 or parts[0].dtype.kind not in "biuf":
        raise ValueError("the actions have no common type and shape")
    return np.stack(parts)


def rows(found: Any) -> list[Any]:
    """The actions that `columns` made arrays of.

    Raises:
        ValueError: these are no arrays of one length, or of more rows than any episode keeps.
    """
    length, *others = sorted(set(_lengths(found, MAX_DEPTH)))
    if others or length > MAX_ACTIONS:
        raise ValueError(f"its parts have {[length, *others]} rows")
    return [_row(found, t) for t in range(length)]


def _lengths(found: Any, depth: int) -> list[int]:
    if isinstance(found, np.ndarray) and found.ndim:
        return [len(found)]
    if not isinstance(found, dict | tuple) or not depth or not found:
        raise ValueError("a part of it is no array")
    parts = found.values() if isinstance(found, dict) else found
    return [length for part in parts for length in _lengths(part, depth - 1)]


def _row(found: Any, t: int) -> Any:
    if isinstance(found, dict):
        return {key: _row(part, t) for key, part in found.items()}
    return tuple(_row(part, t) for part in found) if isinstance(found, tuple) else found[t]
