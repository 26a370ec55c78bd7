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
        kind: `type`, `dtype`, `shape`, `keys`, `not-finite` or `out-of-space`.
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

    def check(value: Any) -> list[FormFault]:
        if not isinstance(value, Mapping):
            return [FormFault("type", key, f"a {type(value).__name__}", "a dict")]
        faults = []
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
    floats = np.dtype(dtype).kind == "f"
    own = None if type(space) is spaces.Box else _contained(space, key)

    def check(value: Any) -> list[FormFault]:
        plain = type(value) is np.ndarray and value.dtype == dtype and value.shape == shape
        faults = [] if plain else _array_faults(value, shape, dtype, key)
        if any(fault.kind in ("type", "shape") for fault in faults) or value.dtype.kind not in "biuf":
            return faults
        outside = ~((value >= low) & (value <= high))
        finite = np.isfinite(value) if value.dtype.kind == "f" else np.ones_like(outside)
        if floats and not finite.all():
            place = _place(~finite)
            faults.append(FormFault("not-finite", f"{key}{_index(place)}", brief(value[place]), "a finite number"))
        outside &= finite
        if outside.any():
            place = _place(outside)
            bounds = f"from {brief(low[place])} to {brief(high[place])}"
            faults.append(FormFault("out-of-space", f"{key}{_index(place)}", brief(value[place]), bounds))
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


def _index(place: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, place))}]" if place else ""


class Features:
    """The numbers of an observation as one row, for statistics and for policies that look.

    Attributes:
        names: Of each entry, such as `['stock'][2]`.
        continuous: Which entries are of a Box that is no picture, [D].

    Args:
        space: Observation space; its pictures, texts and other long parts are left out.
    """

    LONGEST = 512  # entries; more are a picture or the like

    def __init__(self, space: gym.Space[Any]) -> None:
        self._readers: list[Callable[[Any], Any]] = []
        self.names: list[str] = []
        flags: list[bool] = []
        for path, key, leaf in _leaves(space):
            size = int(np.prod(leaf.shape)) if leaf.shape is not None else 0
            picture = isinstance(leaf, spaces.Box) and (len(leaf.shape) >= 3 or leaf.dtype == np.uint8)
            known = isinstance(leaf, spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete)
            if not known or picture or not 0 < size <= self.LONGEST - len(self.names):
                continue
            self._readers.append(_reader(path))
            shape = leaf.shape or ()
            self.names += [f"{key}{_index(place)}" for place in np.ndindex(*shape)] if shape else [key]
            flags += [isinstance(leaf, spaces.Box)] * size
        self.continuous = np.array(flags, dtype=bool)

    def row(self, obs: Any) -> Any:
        """The numbers, [D] in float64; None where the observation is unlike its space."""
        try:
            if len(self._readers) == 1:
                row = np.asarray(self._readers[0](obs), dtype=np.float64).ravel()
            else:
                row = np.concatenate([np.asarray(read(obs), dtype=np.float64).ravel() for read in self._readers])
        except (KeyError, IndexError, TypeError, ValueError):
            return None
        return row if row.shape == (len(self.names),) else None


def _leaves(space: gym.Space[Any], path: tuple[Any, ...] = (), key: str = "") -> list[tuple[Any, str, Any]]:
    if isinstance(space, spaces.Dict):
        inner: list[tuple[Any, Any]] = list(space.spaces.items())
    elif isinstance(space, spaces.Tuple):
        inner = list(enumerate(space.spaces))
    else:
        return [(path, key, space)]
    return [leaf for name, part in inner for leaf in _leaves(part, (*path, name), f"{key}[{name!r}]")]


def _reader(path: tuple[Any, ...]) -> Callable[[Any], Any]:
    def read(obs: Any) -> Any:
        for name in path:
            obs = obs[name]
        return obs

    return read
