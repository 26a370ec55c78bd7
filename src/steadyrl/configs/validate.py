"""Checks of configuration fields: each error names the field, its value and what would do."""

from __future__ import annotations

import math
from typing import Any

from steadyrl.configs.schedules import LinearSchedule
from steadyrl.errors import UserError

TOO_LARGE = 2**63  # whole numbers stay below it, as files and other programs hold them in 64 bits


def _ends(value: Any) -> tuple[float, ...]:
    return (value.start, value.end) if isinstance(value, LinearSchedule) else (value,)


def _is_size(value: Any) -> bool:
    return type(value) is int and 1 <= value < TOO_LARGE


def fail(config: object, field: str, rule: str) -> UserError:
    """The error for a field that is not what the rule says."""
    value = getattr(config, field)
    return UserError(
        f"{field} is {value!r}, but it must be {rule}.",
        remedy=f"Set {field} (--{field.replace('_', '-')}) to such a value.",
        code="bad-value",
    )


def at_least_one(config: object, *fields: str) -> None:
    """Whole numbers >= 1, below 2**63."""
    for field in fields:
        if not _is_size(getattr(config, field)):
            raise fail(config, field, "a whole number of at least 1 and below 2**63")


def at_most(config: object, limit: int, *fields: str) -> None:
    """Numbers up to a limit."""
    for field in fields:
        if getattr(config, field) > limit:
            raise fail(config, field, f"at most {limit}")


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


def not_negative_whole(config: object, *fields: str) -> None:
    """Whole numbers >= 0, below 2**63."""
    for field in fields:
        value = getattr(config, field)
        if not (_is_size(value) or (type(value) is int and value == 0)):
            raise fail(config, field, "a whole number of at least 0 and below 2**63")


def in_range(config: object, low: float, high: float, *fields: str) -> None:
    """In [low, high]."""
    for field in fields:
        if not all(low <= x <= high for x in _ends(getattr(config, field))):
            raise fail(config, field, f"between {low:g} and {high:g}")


def layer_sizes(config: object, field: str, keys: tuple[str, ...] = ("pi", "vf")) -> None:
    """Whole numbers >= 1, below 2**63, alone or as a table of exactly these keys."""
    value = getattr(config, field)
    if isinstance(value, dict) and set(value) != set(keys):
        raise fail(config, field, f"a table with the keys {' and '.join(keys)}")
    sizes = [size for part in value.values() for size in part] if isinstance(value, dict) else value
    if not all(_is_size(size) for size in sizes):
        raise fail(config, field, "whole layer sizes of at least 1")


def count(name: str, value: Any, what: str, limit: int = TOO_LARGE - 1) -> int:
    """An argument of a function as a whole number of at least 1; `what` it counts is for the error.

    Raises:
        UserError: it is none, or above the limit.
    """
    number = _plain(value)
    if not _is_size(number) or number > limit:
        bound = "below 2**63" if limit == TOO_LARGE - 1 else f"at most {limit}"
        raise UserError(
            f"{name} is {value!r}, but it must be a whole number of at least 1 and {bound}.",
            remedy=f"Pass a number of {what} as {name}.",
            code="bad-value",
        )
    return int(number)


def whole(name: str, value: Any) -> int:
    """An argument of a function as a whole number of at least 0.

    Raises:
        UserError: it is none.
    """
    number = _plain(value)
    if not (_is_size(number) or (type(number) is int and number == 0)):
        raise UserError(
            f"{name} is {value!r}, but it must be a whole number of at least 0 and below 2**63.",
            remedy=f"Pass such a number as {name}.",
            code="bad-value",
        )
    return int(number)


def truth(name: str, value: Any) -> bool:
    """An argument of a function as a bool.

    Raises:
        UserError: it is neither true nor false.
    """
    plain = _plain(value)
    if type(plain) not in (bool, int) or plain not in (0, 1):
        raise UserError(
            f"{name} is {value!r}, but it must be True or False.", remedy=f"Pass {name}=True.", code="bad-value"
        )
    return bool(plain)


def _plain(value: Any) -> Any:
    """NumPy's scalars as Python's, whole floats as integers."""
    plain = value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain
