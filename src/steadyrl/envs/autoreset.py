"""The three autoreset modes of Gymnasium's vector environments, each read into the same terms.

| mode | at the step that ends an episode | after it |
|---|---|---|
| NEXT_STEP | the observation is the true last one | one made-up row: action ignored, reset observation, reward 0 |
| SAME_STEP | the observation is the reset one, the true last one is in `infos["final_obs"]` | goes on |
| DISABLED | the observation is the true last one | the caller resets |
"""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from steadyrl.envs.outcome import success_value
from steadyrl.envs.shown import shown
from steadyrl.errors import RunFailedError, UserError
from steadyrl.spaces.tree import Tree

BoolArray = npt.NDArray[np.bool_]


def autoreset_mode(env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """The mode that a vector environment declares.

    Where it declares none that is NEXT_STEP, Gymnasium's default, with a warning.

    Raises:
        UserError: it declares something else.
    """
    base = env.unwrapped
    # Up to Gymnasium 1.1 these two write their mode into the metadata of the environment's class, which others share.
    if isinstance(base, SyncVectorEnv | AsyncVectorEnv):
        return base.autoreset_mode
    found: Any = (env.metadata or {}).get("autoreset_mode")
    if isinstance(found, AutoresetMode):
        return found
    if found is None:
        warnings.warn(
            f"{type(env.unwrapped).__name__} does not declare metadata['autoreset_mode']: taken as NEXT_STEP, "
            "so the row after an episode's end is dropped. "
            "Declare gymnasium.vector.AutoresetMode there if it resets in the same step.",
            stacklevel=3,
        )
        return AutoresetMode.NEXT_STEP
    for mode in AutoresetMode:
        if isinstance(found, str) and found in (mode.value, mode.name):
            return mode
    raise UserError(
        f"metadata['autoreset_mode'] of {type(env.unwrapped).__name__} is {shown(found)}.",
        remedy="It has to be a gymnasium.vector.AutoresetMode.",
        code="autoreset-mode",
    )


def resets_twice(env: VectorEnv[Any, Any, Any]) -> bool:
    """Whether an explicit reset leaves a finished environment's automatic one pending.

    So it is in Gymnasium's AsyncVectorEnv without shared memory in NEXT_STEP mode (seen in 1.4.0): its worker forgets
    the pending reset only on the branch for shared memory.
    """
    base = env.unwrapped
    return (
        isinstance(base, AsyncVectorEnv) and not base.shared_memory and base.autoreset_mode is AutoresetMode.NEXT_STEP
    )


def final_observations(infos: dict[str, Any], rows: npt.NDArray[np.intp], num_envs: int, space: gym.Space[Any]) -> Any:
    """The true last observations of these rows in SAME_STEP mode, as a batch of the environment's own [len(rows), ...].

    `final_obs` is an object array [N] with None where nothing ended, or holds all rows densely (for a Dict, under each
    key).

    Raises:
        RunFailedError: the environment does not tell one of them.
        UserError: what it tells is no row of observations, one for each environment.
    """
    told = infos.get("final_obs")
    try:
        if isinstance(told, dict):
            return _rows_of(told, rows, num_envs)
        if isinstance(told, np.ndarray) and told.dtype != object:
            return _row(told, num_envs)[rows]
        return Tree.of(space).batch(_told_each(told, rows, num_envs))
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise UserError(
            f"infos['final_obs'] of the vector environment is {shown(told)}, from which the last observation of "
            f"environment {int(rows[0])} cannot be read.",
            remedy=f"Put {num_envs} observations there, None where no episode ended.",
            code="final-obs",
        ) from error


def _rows_of(told: Any, rows: npt.NDArray[np.intp], num_envs: int) -> Any:
    """These rows of a dense batch, whatever dictionaries hold it."""
    if isinstance(told, dict):
        return {key: _rows_of(part, rows, num_envs) for key, part in told.items()}
    return _row(told, num_envs)[rows]


def _row(values: Any, num_envs: int) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if len(array) != num_envs:
        raise ValueError(f"{len(array)} entries for {num_envs} environments")
    return array


def _told_each(told: Any, rows: npt.NDArray[np.intp], num_envs: int) -> list[Any]:
    """The last observation of each of these rows, from a list or an object array of them."""
    if told is not None and (not isinstance(told, np.ndarray | list | tuple) or len(told) != num_envs):
        raise TypeError("no list of observations")
    each = [None if told is None else told[i] for i in rows]
    for i, obs in zip(rows, each, strict=True):
        if obs is None:
            raise RunFailedError(
                f"The vector environment ended the episode of environment {i} without infos['final_obs'], though it "
                "declares SAME_STEP autoreset: the true last observation is lost.",
                remedy="Let it put the last observation there, or declare the autoreset mode that it really has.",
                code="final-obs",
            )
    return each


def success_of(infos: dict[str, Any], row: int, mode: AutoresetMode, num_envs: int) -> bool | None:
    """`is_success` of the episode that this row ended, or None where it is not told.

    Raises:
        UserError: it is no row of truth values, one for each environment.
    """
    layer = infos.get("final_info", {}) if mode is AutoresetMode.SAME_STEP else infos
    if not isinstance(layer, dict) or "is_success" not in layer:
        return None
    values = {}
    for key in ("is_success", "_is_success"):
        value = layer.get(key)
        if value is not None and (not isinstance(value, np.ndarray | list | tuple) or len(value) != num_envs):
            raise UserError(
                f"infos['{key}'] of the vector environment is {shown(value)}, not {num_envs} truth values.",
                remedy="Put one for each environment there, or leave it out.",
                code="info-type",
            )
        values[key] = None if value is None else value[row]
    told = values["_is_success"] is None or success_value(values["_is_success"], "the mask '_is_success'")
    value = values["is_success"]
    return success_value(value, f"environment {row}") if told and value is not None else None
