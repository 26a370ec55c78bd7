"""The numbers and the pictures of an observation, apart from its form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from steadyrl.checker.probe.forms import index_of


class Features:
    """The numbers of an observation as one row, for statistics and for policies that look.

    Attributes:
        names: Of each entry, such as `['stock'][2]`.
        continuous: Which entries are of a Box that is no picture, [D].
        parts: The number of the part of the observation that each entry is of, [D].

    Args:
        space: Observation space; its pictures, texts and other long parts are left out.
    """

    LONGEST = 512  # entries; more are a picture or the like

    def __init__(self, space: gym.Space[Any]) -> None:
        self._readers: list[Callable[[Any], Any]] = []
        self.names: list[str] = []
        flags: list[bool] = []
        parts: list[int] = []
        for path, key, leaf in _leaves(space):
            size = int(np.prod(leaf.shape)) if leaf.shape is not None else 0
            picture = is_picture(leaf)
            known = isinstance(leaf, spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete)
            if not known or picture or not 0 < size <= self.LONGEST - len(self.names):
                continue
            self._readers.append(_reader(path))
            shape = leaf.shape or ()
            self.names += [f"{key}{index_of(place)}" for place in np.ndindex(*shape)] if shape else [key]
            flags += [isinstance(leaf, spaces.Box)] * size
            parts += [len(self._readers)] * size
        self.continuous, self.parts = np.array(flags, dtype=bool), np.array(parts, dtype=int)

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


class Pictures:
    """The parts of an observation that are pictures, to see whether anything ever moves in them.

    Attributes:
        still: Names of those that have never changed; empty for the whole observation.

    Args:
        space: Observation space.
    """

    def __init__(self, space: gym.Space[Any]) -> None:
        found = {key: _reader(path) for path, key, leaf in _leaves(space) if is_picture(leaf)}
        self._readers, self._first = found, dict[str, Any]()

    def look(self, obs: Any) -> None:
        """Take in an observation."""
        for key in list(self._readers):
            try:
                picture = np.asarray(self._readers[key](obs))
            except (KeyError, IndexError, TypeError):
                continue
            if not np.array_equal(self._first.setdefault(key, picture.copy()), picture):
                del self._readers[key]

    @property
    def still(self) -> list[str]:
        """See the class."""
        return list(self._readers)


def is_picture(leaf: gym.Space[Any]) -> bool:
    """Whether a part of an observation is a picture: three axes, or bytes."""
    return isinstance(leaf, spaces.Box) and (len(leaf.shape) >= 3 or leaf.dtype == np.uint8)


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
