"""Rewards, flags and actions read as what they ought to be."""

from __future__ import annotations

from typing import Any

import numpy as np


def number_of(reward: Any) -> float | None:
    """A reward as a number; None where it is none."""
    if isinstance(reward, bool | int | float | np.number | np.bool_):
        return float(reward)
    if isinstance(reward, np.ndarray) and reward.shape == () and reward.dtype.kind in "biuf":
        return float(reward)
    return None


def truth_of(flag: Any) -> bool:
    """A flag as a truth value; what has none is false."""
    try:
        return bool(flag)
    except Exception:  # an array, or an object's own
        return False


def marked(action: Any) -> Any:
    """Something to hash in place of an action: equal actions have equal ones."""
    if isinstance(action, np.ndarray):
        return action.tobytes()
    if isinstance(action, dict):
        return tuple((key, marked(part)) for key, part in action.items())
    if isinstance(action, tuple | list):
        return tuple(marked(part) for part in action)
    return action
