"""An observation held against its space: what is unlike, and where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from steadyrl.checker.probe.values import brief


@dataclass(frozen=True)
class FormFault:
    """One way in which a value is unlike its space.

    Attributes:
        kind: `type`, `dtype`, `shape`, `keys`, `order`, `not-finite` or `out-of-space`.
        key: Where in a nested value; empty for the whole.
        found: What is there, in words.
        expected: What the space says, in words.
    """

    kind: str
    key: str
    found: str
    expected: str


Form = Callable[[Any], "list[FormFault]"]


def form_of(space: gym.Space[Any], key: str = "") -> Form:
    """The function that lists what is unlike in a value of this space."""
    if isinstance(space, spaces.Dict):
        return _dict_form(space, key)
    if isinstance(space, spaces.Tuple):
        return _tuple_form(space, key)
    if isinstance(space, spaces.Box):
        return _box_form(space, key)
    if isinstance(space, spaces.Discrete):
        return _discrete_form(space, key)
    if isinstance(space, spaces.MultiBinary | spaces.MultiDiscrete):
        return _integers_form(space, key)
    if isinstance(space, spaces.Text):
        return _text_form(space, key)
    if isinstance(space, spaces.Sequence) and not space.stack:
        return _sequence_form(space, key)
    return _contained(space, key)


def _contained(space: gym.Space[Any], key: str) -> Form:
    """What a space of any kind says itself."""

    def check(value: Any) -> list[FormFault]:
        try:
            inside = bool(space.contains(value))
        except Exception:  # the space's own code, on a value that it does not expect
            inside = False
        return [] if inside else [FormFault("out-of-space", key, brief(value), f"a member of {brief(space)}")]

    return check


def _dict_form(space: spaces.Dict, key: str) -> Form:
    parts = {name: form_of(part, f"{key}[{name!r}]") for name, part in space.spaces.items()}
    first: list[Any] = []

    def check(value: Any) -> list[FormFault]:
        if not isinstance(value, Mapping):
            return [FormFault("type", key, f"a {type(value).__name__}", "a dict")]
        faults = []
        first[:] = first or list(value)
        if list(value) != first and value.keys() == set(first):
            faults.append(FormFault("order", key, f"in the order {brief(list(value))}", brief(first)))
        if value.keys() != parts.keys():
            found, expected = (brief(sorted(map(str, keys))) for keys in (value, parts))
            faults.append(FormFault("keys", key, f"the keys {found}", expected))
        for name, part in parts.items():
            if name in value:
                faults += part(value[name])
        return faults

    return check


def _tuple_form(space: Any, key: str) -> Form:
    parts = [form_of(part, f"{key}[{i}]") for i, part in enumerate(space.spaces)]

    def check(value: Any) -> list[FormFault]:
        if not isinstance(value, tuple):
            return [FormFault("type", key, f"a {type(value).__name__}", "a tuple")]
        if len(value) != len(parts):
            return [FormFault("shape", key, f"{len(value)} entries", f"{len(parts)}")]
        return [fault for part, item in zip(parts, value, strict=True) for fault in part(item)]

    return check


def _text_form(space: spaces.Text, key: str) -> Form:
    inner = _contained(space, key)

    def check(value: Any) -> list[FormFault]:
        return (
            inner(value) if isinstance(value, str) else [FormFault("type", key, f"a {type(value).__name__}", "a str")]
        )

    return check


def _sequence_form(space: spaces.Sequence, key: str) -> Form:
    part, inner = form_of(space.feature_space, f"{key}[...]"), _contained(space, key)

    def check(value: Any) -> list[FormFault]:
        if not isinstance(value, tuple):
            return [FormFault("type", key, f"a {type(value).__name__}", "a tuple")]
        return [fault for item in value for fault in part(item)] or inner(value)

    return check


def _array_faults(value: Any, shape: tuple[int, ...], dtype: Any, key: str) -> list[FormFault]:
    """What is wrong with type, dtype and shape of an array."""
    if not isinstance(value, np.ndarray) and not (shape == () and isinstance(value, np.generic)):
        return [FormFault("type", key, f"a {type(value).__name__}", f"an array of shape {shape}")]
    faults = []
    if value.shape != shape:
        faults.append(FormFault("shape", key, f"shape {value.shape}", f"{shape}"))
    if value.dtype != dtype:
        faults.append(FormFault("dtype", key, f"{value.dtype}", f"{dtype}"))
    return faults


def _box_form(space: spaces.Box, key: str) -> Form:
    shape, dtype, low, high = space.shape, space.dtype, space.low, space.high
    floats, finite_bounds = np.dtype(dtype).kind == "f", space.is_bounded()
    own = None if type(space) is spaces.Box else _contained(space, key)

    def check(value: Any) -> list[FormFault]:
        plain = type(value) is np.ndarray and value.dtype == dtype and value.shape == shape
        if plain and own is None and (not floats or finite_bounds) and bool(((value >= low) & (value <= high)).all()):
            return []
        faults = [] if plain else _array_faults(value, shape, dtype, key)
        if any(fault.kind in ("type", "shape") for fault in faults) or value.dtype.kind not in "biuf":
            return faults
        outside = ~((value >= low) & (value <= high))
        finite = np.isfinite(value) if value.dtype.kind == "f" else np.ones_like(outside)
        if floats and not finite.all():
            place = _place(~finite)
            faults.append(FormFault("not-finite", f"{key}{index_of(place)}", brief(value[place]), "a finite number"))
        outside &= finite
        if outside.any():
            place = _place(outside)
            bounds = f"from {brief(low[place])} to {brief(high[place])}"
            faults.append(FormFault("out-of-space", f"{key}{index_of(place)}", brief(value[place]), bounds))
        if not faults and own is not None:
            return own(value)
        return faults

    return check


def _discrete_form(space: spaces.Discrete, key: str) -> Form:
    start, n = int(space.start), int(space.n)
    own = None if type(space) is spaces.Discrete else _contained(space, key)

    def check(value: Any) -> list[FormFault]:
        if isinstance(value, np.ndarray | np.generic):
            if value.shape != ():
                return [FormFault("shape", key, f"shape {value.shape}", "one integer")]
            if value.dtype.kind not in "iu":
                return [FormFault("dtype", key, f"{value.dtype}", "an integer")]
        elif not isinstance(value, int):
            return [FormFault("type", key, f"{brief(value)} ({type(value).__name__})", "an integer")]
        if not start <= value < start + n:
            return [FormFault("out-of-space", key, brief(value), f"from {start} to {start + n - 1}")]
        return own(value) if own is not None else []

    return check


def _integers_form(space: spaces.MultiBinary | spaces.MultiDiscrete, key: str) -> Form:
    shape = tuple(int(n) for n in space.shape)
    inner = _contained(space, key)

    def check(value: Any) -> list[FormFault]:
        faults = _array_faults(value, shape, space.dtype, key)
        return faults or inner(value)

    return check


def _place(where: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(where)[0])


def index_of(place: tuple[int, ...]) -> str:
    """A place in an array as it is written; nothing for an array of one number."""
    return f"[{', '.join(map(str, place))}]" if place else ""
