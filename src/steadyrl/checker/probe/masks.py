"""Action masks as an environment gives them: found, read, and held against the actions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


def mask_of(space: gym.Space[Any], obs: Any, info: Any, env: Any = None) -> Any:
    """The mask of valid actions, from info, from a dict observation or from the environment's method; None without."""
    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        return None
    for holder in (info, obs):
        if isinstance(holder, dict):
            for key in ("action_mask", "action_masks"):
                if holder.get(key) is not None:
                    return holder[key]
    method = getattr(env, "action_masks", None)
    return method() if callable(method) else None


def mask_parts(space: gym.Space[Any], mask: Any) -> list[Any] | None:
    """The mask as booleans for each choice of a Discrete or MultiDiscrete; None where it is none, or allows nothing."""
    counts = _counts(space)
    if mask is None or not counts:
        return None
    try:
        if isinstance(mask, tuple | list) and len(mask) == len(counts) and np.ndim(mask[0]):
            parts = [np.asarray(part).astype(bool).ravel() for part in mask]
        else:
            parts = np.split(np.asarray(mask).astype(bool).ravel(), np.cumsum(counts)[:-1])
    except (TypeError, ValueError, IndexError):
        return None
    good = [len(part) for part in parts] == counts and all(part.any() for part in parts)
    return parts if good else None


def permitted(space: gym.Space[Any], mask: Any, action: Any) -> bool:
    """Whether a mask allows an action; what is no mask allows all."""
    parts = mask_parts(space, mask)
    if parts is None:
        return True
    chosen = (np.asarray(action) - np.asarray(getattr(space, "start", 0))).ravel()
    return all(bool(part[int(i)]) for part, i in zip(parts, chosen, strict=True))


def _counts(space: gym.Space[Any]) -> list[int]:
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    return [int(n) for n in space.nvec.ravel()] if isinstance(space, spaces.MultiDiscrete) else []


def mask_fault(space: gym.Space[Any], mask: Any) -> tuple[str, str] | None:
    """What is wrong with a mask of a state in which one more action is asked for: a name, and what in words."""
    if mask is None:
        return None
    if isinstance(mask, tuple | list) and any(isinstance(part, tuple | list | np.ndarray) for part in mask):
        return next((fault for part in mask if (fault := _row_fault(np.asarray(part))) is not None), None)
    flags, counts = np.asarray(mask), _counts(space)
    if len(counts) > 1 and flags.shape == (sum(counts),):  # all parts in one row
        parts = np.split(flags, np.cumsum(counts)[:-1])
        return next((fault for part in parts if (fault := _row_fault(part)) is not None), None)
    if isinstance(space, spaces.Discrete) and flags.shape != (int(space.n),):
        return "mask-shape", f"shape {flags.shape} for {int(space.n)} actions"
    return _row_fault(flags)


def _row_fault(flags: Any) -> tuple[str, str] | None:
    empty = flags.size and flags.dtype.kind in "biuf" and not flags.astype(bool).any()
    return ("mask-empty", "no action is allowed") if empty else None
