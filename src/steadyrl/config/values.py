"""Values of fields, from text (shell, sweep) or from Python, checked against the annotation of the field."""

from __future__ import annotations

import ast
import collections.abc
import numbers
import os
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from steadyrl.configs.schedules import LinearSchedule
from steadyrl.errors import UserError, nearest

_MISSPELT = 0.7  # the error lists all choices: only one that was meant for certain is worth naming again
_LARGEST = 3.4e38  # of float32, which networks work in
_BOOL_WORDS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


class _MisfitError(Exception):
    """The value does not fit the annotation."""


def parse_value(text: str, annotation: Any, field: str) -> Any:
    """The value that `text` stands for: a Python literal such as `1e-3`, `[64, 64]`, `None`, or a plain word.

    Whole numbers may be written `1e6` or `1_000_000`, switches true/false/yes/no, sequences without brackets: `64,64`.

    Raises:
        UserError: The text does not fit; names the field, the text and what would fit, with an example.
    """
    members = _members(annotation)
    if types.NoneType in members and text.strip().lower() in ("none", "null"):
        return None
    if bool in members and text.strip().lower() in _BOOL_WORDS:
        return _BOOL_WORDS[text.strip().lower()]
    spelt = literal(text)
    if float in members and isinstance(spelt, int | float) and not isinstance(spelt, bool):
        return coerce(spelt, annotation, field)
    table = isinstance(spelt, dict) and any(get_origin(member) is dict for member in members)
    if not table and any(_is_wordlike(member) for member in members):
        return coerce(_unquoted(text), annotation, field)
    return coerce(spelt, annotation, field)


def literal(text: str) -> Any:
    """The Python literal that `text` spells, or `text` itself where it spells none."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def coerce(value: Any, annotation: Any, field: str) -> Any:
    """`value` in the exact type of `annotation`: lists become tuples, whole floats ints, start/end tables schedules.

    A switch is no number and a number no switch. Numbers must be finite. NumPy scalars count as their Python value.

    Raises:
        UserError: The value does not fit; names the field, the value and what would fit, with an example.
    """
    plain = value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value
    for member in _members(annotation):
        try:
            return _fit(plain, member)
        except _MisfitError:
            continue
    raise UserError(
        f"{field} is {_shown(value)}, but it must be {describe(annotation)}{_limit(value, annotation)}.",
        remedy=_remedy(value, annotation, field),
        code="bad-value",
    )


def _limit(value: Any, annotation: Any) -> str:
    """How large a number may be, where it is one that is too large."""
    if not isinstance(value, int | float) or not abs(value) >= 2**63:
        return ""
    return ", of at most 3.4e38" if float in _members(annotation) else ", below 2**63"


def describe(annotation: Any) -> str:
    """The annotation in words, such as `a number or None`."""
    words = [_word(member) for member in _members(annotation)]
    return " or ".join(dict.fromkeys(words))


def is_schedule(annotation: Any) -> bool:
    """Whether a field of this annotation takes a schedule."""
    return LinearSchedule in _members(annotation)


def encode(value: Any) -> Any:
    """`value` as JSON has it: schedules as {start, end, fraction}, tuples as lists, paths as text."""
    if isinstance(value, LinearSchedule):
        return {"start": value.start, "end": value.end, "fraction": value.fraction}
    if isinstance(value, collections.abc.Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _members(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _is_wordlike(member: Any) -> bool:
    return member in (str, Path) or get_origin(member) is Literal


def _unquoted(text: str) -> str:
    value = literal(text) if text[:1] in ("'", '"') else text
    return value if isinstance(value, str) else text


def _fit(value: Any, member: Any) -> Any:
    """`value` as `member`, one part of a union.

    Raises:
        _MisfitError: It does not fit.
    """
    if member is Any:
        return value
    if member in (bool, str, types.NoneType):
        return _expect(isinstance(value, member), value)
    if member is int:
        return _whole(value)
    if member is float:
        return _number(value)
    if member is Path:
        return Path(_expect(isinstance(value, (str, os.PathLike)) and str(value) != "", value))
    if member is LinearSchedule:
        return _schedule(value)
    origin = get_origin(member)
    if origin is Literal:
        return _expect(isinstance(value, str) and value in get_args(member), value)
    if origin is tuple:
        return _sequence(value, get_args(member)[0])
    if origin in (dict, collections.abc.Mapping):
        return _table(value, *get_args(member))
    raise TypeError(f"no rule for fields annotated {member}")


def _expect(condition: bool, value: Any) -> Any:
    if not condition:
        raise _MisfitError
    return value


def _whole(value: Any) -> int:
    number = _number(value)
    _expect(number.is_integer() and -(2**63) <= int(value) < 2**63, value)
    return int(value)


def _number(value: Any) -> float:
    _expect(isinstance(value, numbers.Real) and not isinstance(value, bool), value)
    try:
        number = float(value)
    except OverflowError:
        raise _MisfitError from None
    return float(_expect(abs(number) <= _LARGEST, number))


def _schedule(value: Any) -> LinearSchedule:
    if isinstance(value, LinearSchedule):
        return LinearSchedule(_number(value.start), _number(value.end), _number(value.fraction))
    _expect(isinstance(value, collections.abc.Mapping), value)
    _expect({"start", "end"} <= set(value) <= {"start", "end", "fraction"}, value)
    return LinearSchedule(_number(value["start"]), _number(value["end"]), _number(value.get("fraction", 1.0)))


def _sequence(value: Any, item: Any) -> tuple[Any, ...]:
    if isinstance(value, numbers.Real):
        value = (value,)
    _expect(isinstance(value, (list, tuple)), value)
    return tuple(_fit(element, item) for element in value)


def _table(value: Any, key: Any, item: Any) -> dict[Any, Any]:
    _expect(isinstance(value, collections.abc.Mapping), value)
    return {_fit(name, key): _fit(element, item) for name, element in value.items()}


_WORDS = {
    bool: "True or False",
    str: "text",
    types.NoneType: "None",
    int: "a whole number",
    float: "a finite number",
    Path: "a path",
    LinearSchedule: "a schedule {'start': x, 'end': y}",
    Any: "anything",
}


def _word(member: Any) -> str:
    if get_origin(member) is Literal:
        return "one of " + ", ".join(get_args(member))
    if get_origin(member) is tuple:
        return "whole numbers such as (64, 64)"
    if get_origin(member) in (dict, collections.abc.Mapping):
        return "a table such as " + _example(member)
    return _WORDS[member]


def _example(member: Any) -> str:
    """A literal that fits `member`."""
    if get_origin(member) is Literal:
        return str(get_args(member)[0])
    if get_origin(member) is tuple:
        return "(64, 64)"
    if get_origin(member) is dict:
        worded = _is_wordlike(get_args(member)[1])
        return "{'camera': 'chw'}" if worded else "{'pi': (64, 64), 'vf': (64, 64)}"
    if get_origin(member) is collections.abc.Mapping:
        return "{'continuous': True}"
    return {bool: "True", int: "8", float: "0.001", str: "name", Path: "some/folder"}[member]


def choices(annotation: Any) -> list[str]:
    """The words that a field of this annotation takes, such as `auto` and `hwc`; none where it takes any or none."""
    return [word for member in _members(annotation) if get_origin(member) is Literal for word in get_args(member)]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _remedy(value: Any, annotation: Any, field: str) -> str:
    example = _example(_members(annotation)[0])
    python = repr(example) if _is_wordlike(_members(annotation)[0]) else example
    flag = "--" + field.replace("_", "-")
    flagged = f'"{example}"' if set(example) & set(" '(){}") else example
    hint = ""
    if callable(value) and is_schedule(annotation):
        hint = " A function cannot be saved with the run: use steadyrl.LinearSchedule(start, end)."
    elif callable(value):
        hint = f" Pass a name, not the object. {nearest(getattr(value, '__name__', ''), choices(annotation))}"
    elif is_schedule(annotation):
        hint = f" A line to zero is {flag} {example} {flag}-end 0."
    elif isinstance(value, str):
        hint = " " + nearest(value, choices(annotation), cutoff=_MISSPELT)
    return f"For example: {flag} {flagged}, in Python {field}={python}.{hint}".rstrip()
