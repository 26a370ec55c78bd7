"""Remarks on the observations of the first steps: outside their bounds, of another type, or too fine for float32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from steadyrl.envs.convert import dtype_differs, dtype_note
from steadyrl.spaces import Tree, is_wide, precision_note, precision_notes
from steadyrl.spaces.tree import leaf_spaces

_BOUNDS_STEPS = 1000  # how long bounds and types are looked at
_SPREAD_STEPS = 100  # how long least and largest values are gathered
_SLACK = 1e-5  # rounding beyond a bound that is not worth a word, as a share of it


@dataclass
class _Part:
    """One Box of the observation, and what is still to be looked for in it."""

    path: str
    where: str
    space: spaces.Box
    low: npt.NDArray[Any]
    high: npt.NDArray[Any]
    bounded: bool
    typed: bool
    wide: bool
    least: npt.NDArray[Any]
    most: npt.NDArray[Any]


class FirstSteps:
    """Looks at the observations of the first steps, as the environments give them, and says each thing once.

    Args:
        space: The observation space of one environment.
        name: How the remarks call the environment.
    """

    def __init__(self, space: gym.Space[Any], name: str) -> None:
        self.declared = precision_notes(space)
        self._name = name
        self._tree = Tree.of(space)
        boxes = [(path, part) for path, part in leaf_spaces(space) if isinstance(part, spaces.Box)]
        self._parts = [_part(path, part) for path, part in boxes if part.dtype != bool]
        self._seen = 0
        self.over = not self._parts

    def look(self, obs: Any) -> list[str]:
        """Remarks on one batch of observations that fit the space, leaves [N, ...]."""
        self._seen += 1
        notes = []
        leaves = self._tree.flat(obs)
        for part in self._parts:
            array = np.asarray(leaves[part.path])
            if part.typed and dtype_differs(array, part.space.dtype):
                part.typed = False
                notes.append(dtype_note(part.where, self._name, array.dtype, part.space.dtype))
            if part.bounded and ((array < part.low) | (array > part.high)).any():
                part.bounded = False
                notes.append(self._outside(part, array))
            if part.wide:
                part.least = np.minimum(part.least, array.min(axis=0))
                part.most = np.maximum(part.most, array.max(axis=0))
        if self._seen == _SPREAD_STEPS:
            notes += self.end()
        self.over = self._seen >= _BOUNDS_STEPS
        return notes

    def end(self) -> list[str]:
        """Remarks on what was gathered, where nothing further is."""
        return list(self._precision()) if self._seen else []

    def state(self) -> dict[str, Any]:
        """What was seen so far, a plain value."""
        parts = {
            part.path: {
                "bounded": part.bounded,
                "typed": part.typed,
                "wide": part.wide,
                "least": part.least.copy(),
                "most": part.most.copy(),
            }
            for part in self._parts
        }
        return {"seen": self._seen, "over": self.over, "parts": parts}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._seen, self.over = int(state["seen"]), bool(state["over"])
        for part in self._parts:
            told = state["parts"][part.path]
            part.bounded, part.typed, part.wide = bool(told["bounded"]), bool(told["typed"]), bool(told["wide"])
            part.least, part.most = told["least"].copy(), told["most"].copy()

    def _precision(self) -> Iterator[str]:
        for part in self._parts:
            if part.wide:
                part.wide = False
                note = precision_note(part.least, part.most, f"{part.where} of {self._name}")
                if note and not self.declared:
                    yield note

    def _outside(self, part: _Part, array: npt.NDArray[Any]) -> str:
        row, *place = (int(x) for x in np.argwhere((array < part.low) | (array > part.high))[0])
        entry = tuple(place)
        return (
            f"The {part.where} of {self._name} is {array[(row, *entry)]!s}"
            f"{f' in entry {list(entry)}' if entry else ''}, but its space goes from {part.space.low[entry]:g} to "
            f"{part.space.high[entry]:g}: correct the space or the observation."
        )


def _part(path: str, space: spaces.Box) -> _Part:
    low, high = space.low, space.high
    if space.dtype.kind == "f":
        bounded = bool(np.isfinite(low).any() or np.isfinite(high).any())
        least, most = np.full(space.shape, np.inf), np.full(space.shape, -np.inf)
        with np.errstate(over="ignore"):  # from the largest number on there is no bound
            low = (low - _SLACK * np.maximum(1.0, np.abs(low))).astype(low.dtype)
            high = (high + _SLACK * np.maximum(1.0, np.abs(high))).astype(high.dtype)
    else:
        limits: Any = np.iinfo(str(space.dtype))
        bounded = bool((low > limits.min).any() or (high < limits.max).any())
        least = np.full(space.shape, limits.max, dtype=space.dtype)
        most = np.full(space.shape, limits.min, dtype=space.dtype)
    return _Part(
        path=path,
        where=f"observation at '{path}'" if path else "observation",
        space=space,
        low=low,
        high=high,
        bounded=bounded,
        typed=space.dtype.kind == "f",
        wide=is_wide(space.dtype),
        least=least,
        most=most,
    )
