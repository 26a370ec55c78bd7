"""Arguments of an environment as strict JSON can hold them: run folders and bundles name them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, get_type_hints

from steadyrl.config.values import coerce
from steadyrl.configs.wrapping import WrapperSettings, wrapper_list
from steadyrl.errors import UserError

MAX_BYTES = 64 * 1024  # as JSON; a bundle's whole description may have 1 MiB
_MAX_DEPTH = 16


class _UnfitError(Exception):
    """Where the value is, and why JSON cannot hold it."""


def storable_kwargs(kwargs: Any) -> dict[str, Any]:
    """A copy with NumPy's scalars as Python's.

    Raises:
        UserError: it is no mapping, or holds something that JSON cannot hold; the key is named.
    """
    if not isinstance(kwargs, Mapping):
        raise UserError(
            f"env_kwargs is {_shown(kwargs)}, but it must be a table of arguments.",
            remedy="For example: --env-kwargs continuous=True, in Python env_kwargs={'continuous': True}.",
            code="bad-value",
        )
    try:
        storable: dict[str, Any] = _table(kwargs, "env_kwargs", _MAX_DEPTH)
        size = len(json.dumps(storable))
        if size > MAX_BYTES:
            raise _UnfitError(f"env_kwargs takes {size} bytes as JSON, but at most {MAX_BYTES} can be saved.")
    except _UnfitError as unfit:
        raise UserError(
            str(unfit),
            remedy="Pass a function that makes the environment with it instead, such as `lambda: Env(...)`.",
            code="env-kwargs",
        ) from None
    return storable


def storable_wrappers(given: Any) -> tuple[dict[str, Any], ...]:
    """Wrappers as `configs.wrapping.wrapper_list` reads them, with arguments that JSON can hold.

    Raises:
        UserError: they name no wrappers, or an argument cannot be saved; the key is named.
    """
    storable = []
    for entry in wrapper_list(given):
        try:
            storable.append({"name": entry["name"], "kwargs": _table(entry["kwargs"], f"{entry['name']}", _MAX_DEPTH)})
        except _UnfitError as unfit:
            raise UserError(
                str(unfit),
                remedy="Write a class of your own that sets it, and name it: path/to/file.py:Class.",
                code="bad-value",
            ) from None
    return tuple(storable)


def wrappers_from(said: Mapping[str, Any]) -> WrapperSettings:
    """The settings that `WrapperSettings.said` told, from a file.

    Raises:
        UserError: an unknown name, or a value of the wrong type or size.
    """
    known = get_type_hints(WrapperSettings)
    odd = sorted(said.keys() - known.keys())
    if odd:
        raise UserError(
            f"There is no wrapper setting {odd[0][:40]!r}.",
            remedy="Use the version of the library that wrote it.",
            code="bad-value",
        )
    values: dict[str, Any] = {
        name: storable_wrappers(value) if name == "wrappers" else coerce(value, known[name], name)
        for name, value in said.items()
    }
    return WrapperSettings(**values)


def _table(table: Mapping[Any, Any], where: str, depth: int) -> dict[str, Any]:
    for key in table:
        if type(key) is not str:
            raise _UnfitError(f"{where} has the key {_shown(key)}, but keys must be words.")
    return {key: _value(item, f"{where}[{key!r}]", depth - 1) for key, item in table.items() if _text(key, where)}


def _value(value: Any, where: str, depth: int) -> Any:
    if depth < 0:
        raise _UnfitError(f"{where[:200]} is nested deeper than {_MAX_DEPTH}, which cannot be saved.")
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if value is None or type(value) is bool:
        return value
    if isinstance(value, str) and _text(value, where):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping):
        return _table(value, where, depth)
    if type(value) in (list, tuple):
        return type(value)(_value(item, f"{where}[{i}]", depth - 1) for i, item in enumerate(value))
    raise _UnfitError(f"{where} is {_shown(value)}, which cannot be saved with the run.")


def _text(text: str, where: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _UnfitError(f"{where} holds the text {text!r}, which is no Unicode and cannot be saved.") from None
    return True


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
