"""What a step tells besides its observation, in the one form that the library works with: reward, flags, info."""

from __future__ import annotations

from typing import Any

import numpy as np

from steadyrl.envs.keys import GAME, PART
from steadyrl.envs.nonfinite import ABSURD
from steadyrl.envs.shown import shown
from steadyrl.errors import UserError

NOTE = "steadyrl_note"  # the key of `info` under which a remark for the user travels to the parent process

MIGRATE = (
    "It has to follow Gymnasium, not the old gym: reset(self, *, seed=None, options=None) returns (obs, info), "
    "step(self, action) returns (obs, reward, terminated, truncated, info); the class is derived from gymnasium.Env."
)

_KEPT_INFO = ("is_success", "action_mask")


def insist_on_pair(result: Any, name: str) -> None:
    """Raise UserError unless `reset()` returned what it has to: an observation and a dictionary."""
    if not (isinstance(result, tuple) and len(result) == 2):
        raise old_gym(f"reset() of {name} returned {_count_of(result)} instead of (obs, info).")
    insist_on_info(result[1], name)


def insist_on_five(result: Any, name: str) -> None:
    """Raise UserError unless `step()` returned five values."""
    if type(result) is not tuple or len(result) != 5:
        raise old_gym(f"step() of {name} returned {_count_of(result)} instead of five.")


def old_gym(message: str) -> UserError:
    """The error for what breaks Gymnasium's interface."""
    return UserError(message, remedy=MIGRATE, code="old-gym")


def _count_of(result: Any) -> str:
    if isinstance(result, tuple):
        return f"{len(result)} value{'s' if len(result) != 1 else ''}"
    return f"one {type(result).__name__}"


def reward_of(value: Any, name: str) -> float:
    """A reward as a Python float, from a number, a 0-d array or an array of shape (1,).

    Raises:
        UserError: it is something else.
    """
    try:
        if isinstance(value, (float, int)):
            return float(value)
        number = one_entry(value)
        if number is not None and number.dtype.kind in "biuf":
            return float(number)
    except OverflowError:
        raise UserError(
            f"The reward of {name} is {shown(value)}, too large for a float.",
            remedy="Scale the reward in the environment.",
            code="reward-type",
        ) from None
    raise UserError(
        f"The reward of {name} is {shown(value)}, not one number.",
        remedy="Return a float from step(), such as float(reward).",
        code="reward-type",
    )


def flag_of(value: Any, key: str, name: str) -> bool:
    """`terminated` or `truncated` as a Python bool, from a bool, np.bool_, a 0-d array or an array of shape (1,).

    Raises:
        UserError: it is something else.
    """
    flag = one_entry(value)
    if flag is None or flag.dtype != np.bool_:
        raise UserError(
            f"`{key}` of {name} is {shown(value)}, not a bool.",
            remedy="step() returns obs, reward, terminated, truncated, info, in this order; the flags are bool(...).",
            code="flag-type",
        )
    return bool(flag)


def insist_on_info(info: Any, name: str) -> None:
    """Raise UserError unless `info` is a dictionary."""
    if not isinstance(info, dict):
        raise UserError(
            f"The info of {name} is {shown(info)}, not a dictionary.",
            remedy="reset() returns obs, info and step() returns obs, reward, terminated, truncated, info.",
            code="info-type",
        )


def info_of(info: Any, name: str, step: int | None = None) -> dict[str, Any]:
    """A fresh dictionary of what the library reads from `info`: `is_success` (bool) and `action_mask`, as it is.

    Args:
        info: What the environment told.
        name: How errors call the environment.
        step: Of its episode, where it told that in a step.

    Raises:
        UserError: `info` is no dictionary, or `is_success` is not one truth value.
    """
    insist_on_info(info, name)
    kept: dict[str, Any] = {}
    for key in _KEPT_INFO:
        value = info.get(key)
        if value is None:
            continue
        where = name if step is None else f"{name}, in step {step} of its episode,"
        kept[key] = success_value(value, where) if key == "is_success" else value
    for key in (GAME, PART):
        if key in info:
            kept[key] = info[key]
    return kept


def success_value(value: Any, name: str) -> bool:
    """`is_success` of one episode as a bool.

    Raises:
        UserError: it is not one truth value.
    """
    number = one_entry(value)
    if number is None or number.dtype.kind not in "biuf" or not abs(float(number)) <= ABSURD:
        raise UserError(
            f"info['is_success'] of {name} is {shown(value)}, not a truth value.",
            remedy="Return True or False there, or leave it out.",
            code="info-type",
        )
    return bool(number)


def one_entry(value: Any) -> Any:
    """The one NumPy scalar in a number, a 0-d array or an array of shape (1,); None for anything else."""
    if isinstance(value, bool | int | float | np.generic):
        return np.asarray(value)[()]
    if isinstance(value, np.ndarray) and value.shape in ((), (1,)) and value.dtype != object:
        return value.reshape(())[()]
    return None
