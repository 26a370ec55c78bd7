"""Bounds of spaces: which are any, actions that are clipped at them, and an action that always fits."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from steadyrl.envs.nonfinite import ABSURD


class ClippedActions(gym.ActionWrapper[Any, Any, Any]):
    """Any action is taken, and clipped at the bounds.

    The action space keeps them, unlike that of Gymnasium's wrapper: policies take their actions within bounds.

    Args:
        env: The environment, whose actions are a Box.
    """

    def action(self, action: Any) -> npt.NDArray[Any]:
        """As it is taken."""
        space: Any = self.env.action_space
        clipped: npt.NDArray[Any] = np.clip(action, space.low, space.high)
        return clipped


def has_bounds(space: spaces.Box) -> bool:
    """Whether all bounds are numbers to count with: neither infinite nor absurd, as the largest float32 is."""
    low, high = np.abs(space.low.astype(np.float64)), np.abs(space.high.astype(np.float64))
    return bool((low <= ABSURD).all() and (high <= ABSURD).all())


def lacking(space: gym.Space[Any], *, finite: bool = True) -> str:
    """What actions lack that are to be rescaled or clipped, in words; empty for nothing.

    Args:
        space: Theirs.
        finite: Whether bounds have to be finite.
    """
    if not isinstance(space, spaces.Box) or (finite and not has_bounds(space)):
        return "with finite bounds"
    if np.dtype(space.dtype).kind != "f":
        return "that are real numbers"
    return "" if (space.low < space.high).all() else "with room between their bounds"


def least_action(space: gym.Space[Any]) -> Any:
    """The first of several choices, and 0 or the number nearest to it; None where neither is known."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inside = space.items() if isinstance(space, spaces.Dict) else enumerate(space)
        parts = {name: least_action(part) for name, part in inside}
        if any(part is None for part in parts.values()):
            return None
        return parts if isinstance(space, spaces.Dict) else tuple(parts.values())
    if isinstance(space, spaces.Discrete):
        return np.dtype(space.dtype).type(space.start)
    if isinstance(space, spaces.Box):
        return np.clip(np.zeros(space.shape, dtype=space.dtype), space.low, space.high)
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        start = getattr(space, "start", 0)
        return np.zeros(space.shape, dtype=space.dtype) + np.asarray(start, dtype=space.dtype)
    return None
