"""What a vector environment declares and returns, held against what it has to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import VectorEnv

from steadyrl.envs.shown import shown
from steadyrl.envs.types import BoolArray, FloatArray
from steadyrl.errors import UserError


def insist_on_vector(env: VectorEnv[Any, Any, Any], name: str) -> None:
    """Raise UserError for a vector environment that does not say how many environments it has and of which spaces."""
    count = getattr(env, "num_envs", None)
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise UserError(
            f"num_envs of the vector environment {name} is {shown(count)}, not a whole number of at least 1.",
            remedy="Set self.num_envs in its __init__.",
            code="vector-num-envs",
        )
    for key in ("single_observation_space", "single_action_space"):
        space = getattr(env, key, None)
        if not isinstance(space, gym.Space):
            raise UserError(
                f"{key} of the vector environment {name} is {shown(space)}, not a gymnasium.Space.",
                remedy=f"Set self.{key} in its __init__: the space of one environment.",
                code="vector-space",
            )
    if not isinstance(env.metadata or {}, Mapping):
        raise UserError(
            f"metadata of the vector environment {name} is {shown(env.metadata)}, not a dictionary.",
            remedy="Let it be a dictionary such as {'autoreset_mode': gymnasium.vector.AutoresetMode.NEXT_STEP}.",
            code="autoreset-mode",
        )


def parts_of(result: Any, names: tuple[str, ...], method: str, name: str) -> Any:
    """What `reset` or `step` returned, if it is a tuple of these parts whose last one is a dictionary.

    Raises:
        UserError: it is something else.
    """
    if not (isinstance(result, tuple) and len(result) == len(names) and isinstance(result[-1], dict)):
        kind = f"{len(result)} values" if isinstance(result, tuple) else shown(result)
        if isinstance(result, tuple) and len(result) == len(names):
            kind = f"{shown(result[-1])} as infos"
        raise UserError(
            f"{method}() of the vector environment {name} returned {kind}.",
            remedy=f"It has to return {', '.join(names)}; infos is a dictionary.",
            code="old-gym",
        )
    return result


def rewards_of(values: Any, num_envs: int, name: str) -> FloatArray:
    """A fresh array [N] of floats.

    Raises:
        UserError: it is not one number for each environment.
    """
    array = _array(values)
    if array.dtype.kind not in "biuf":
        raise UserError(
            f"`rewards` of the vector environment {name} is {shown(values)}, not {num_envs} numbers.",
            remedy="Return an array of floats from step(), one for each environment.",
            code="reward-type",
        )
    return np.array(_row(array, "rewards", num_envs, name), dtype=np.float64)


def flags_of(values: Any, key: str, num_envs: int, name: str) -> BoolArray:
    """A fresh array [N] of bools.

    Raises:
        UserError: it is not one bool for each environment.
    """
    array = _array(values)
    if array.dtype != np.bool_:
        raise UserError(
            f"`{key}` of the vector environment {name} is {shown(values)}, not {num_envs} bools.",
            remedy="step() returns obs, rewards, terminated, truncated, infos; the flags are arrays of bool.",
            code="flag-type",
        )
    return np.array(_row(array, key, num_envs, name))


def _array(values: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError):  # ragged lists, tensors of another device
        return np.array(None)


def _row(array: npt.NDArray[Any], key: str, num_envs: int, name: str) -> npt.NDArray[Any]:
    if array.shape == (num_envs,):
        return array
    if array.shape == (num_envs, 1):
        return array[:, 0]
    raise UserError(
        f"`{key}` of the vector environment {name} has shape {array.shape} instead of ({num_envs},).",
        remedy="Let it return one value for each environment.",
        code="vector-shape",
    )
