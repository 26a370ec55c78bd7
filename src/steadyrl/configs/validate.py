"""Checks of configuration fields: each error names the field, its value and what would do."""

from __future__ import annotations

import math
from typing import Any

from steadyrl.configs.schedules import LinearSchedule
from steadyrl.errors import UserError


def _ends(value: Any) -> tuple[float, ...]:
    return (value.start, value.end) if isinstance(value, LinearSchedule) else (value,)


def _is_size(value: Any) -> bool:
    return type(value) is int and value >= 1


def fail(config: object, field: str, rule: str) -> UserError:
    """The error for a field that is not what the rule says."""
    value = getattr(config, field)
    return UserError(
        f"{field} is {value!r}, but it must be {rule}.",
        remedy=f"Set {field} (--{field.replace('_', '-')}) to such a value.",
        code="bad-value",
    )


def at_least_one(config: object, *fields: str) -> None:
    """Whole numbers >= 1."""
    for field in fields:
        if not _is_size(getattr(config, field)):
            raise fail(config, field, "a whole number of at least 1")


def positive(config: object, *fields: str) -> None:
    """Finite and > 0 at the start, >= 0 at the end of a schedule."""
    for field in fields:
        ends = _ends(getattr(config, field))
        if not (all(math.isfinite(x) and x >= 0 for x in ends) and ends[0] > 0):
            raise fail(config, field, "a finite number above 0")


def not_negative(config: object, *fields: str) -> None:
    """Finite and >= 0."""
    for field in fields:
        if not all(math.isfinite(x) and x >= 0 for x in _ends(getattr(config, field))):
            raise fail(config, field, "a finite number of at least 0")


def in_range(config: object, low: float, high: float, *fields: str) -> None:
    """In [low, high]."""
    for field in fields:
        if not all(low <= x <= high for x in _ends(getattr(config, field))):
            raise fail(config, field, f"between {low:g} and {high:g}")


def layer_sizes(config: object, field: str, keys: tuple[str, ...] = ("pi", "vf")) -> None:
    """Whole numbers >= 1, alone or as a table of exactly these keys."""
    value = getattr(config, field)
    if isinstance(value, dict) and set(value) != set(keys):
        raise fail(config, field, f"a table with the keys {' and '.join(keys)}")
    sizes = [size for part in value.values() for size in part] if isinstance(value, dict) else value
    if not all(_is_size(size) for size in sizes):
        raise fail(config, field, "whole layer sizes of at least 1")
