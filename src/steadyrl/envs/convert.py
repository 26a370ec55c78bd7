"""Observations and actions of one environment in the one form that the library works with: fresh, as the space says."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from steadyrl.envs.shown import shown
from steadyrl.errors import RunFailedError, UserError
from steadyrl.spaces.tree import FIXED, Tree, join, leaf_spaces

Converter = Callable[[Any], Any]


def obs_converter(space: gym.Space[Any], name: str, path: str = "", notes: list[str] | None = None) -> Converter:
    """The function that makes a fresh, checked observation of this space (its tree for a Dict or Tuple).

    Args:
        space: The observation space, or the part of it at `path`.
        name: How errors call the environment.
        path: Of the part of a Dict or Tuple.
        notes: Gets a remark where the observations are floats of another type than the space says.

    The function raises UserError where the observation does not fit the space.
    """
    if isinstance(space, spaces.Dict):
        return _dict_converter(space, name, path, notes)
    if isinstance(space, spaces.Tuple):
        return _tuple_converter(space, name, path, notes)
    where = f"observation at '{path}'" if path else "observation"
    if isinstance(space, spaces.Discrete):
        return _discrete_converter(space, name, where)
    if isinstance(space, spaces.MultiDiscrete):
        return _multidiscrete_converter(space, name, where)
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return _array_converter(space, name, where, [] if notes is None else notes)
    if isinstance(space, spaces.Text):
        return partial(_text, space, name, where)
    if isinstance(space, spaces.Sequence) and isinstance(space.feature_space, FIXED):
        return _sequence_converter(space, name, path)
    return copy.deepcopy


def action_converter(space: gym.Space[Any]) -> Converter:
    """The function that makes a fresh action of the space's own dtype; a NumPy integer for Discrete.

    That of a Dict or Tuple takes a row of the policy's structured array too, or the parts by their paths.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return _tree_of_actions(space)
    dtype = space.dtype
    if dtype is None:
        return copy.deepcopy
    if isinstance(space, spaces.Discrete):
        scalar = np.dtype(dtype).type

        def to_integer(action: Any) -> Any:
            return action if type(action) is scalar else scalar(action)

        return to_integer

    def to_array(action: Any) -> npt.NDArray[Any]:
        if type(action) is np.ndarray and action.dtype == dtype:
            return action.copy()
        return np.array(action, dtype=dtype)

    return to_array


def copied(action: Any) -> Any:
    """An action to be given away: whoever gets it may write into it."""
    if type(action) is np.ndarray and action.dtype != object:
        return action.copy()
    return action if isinstance(action, int | np.integer) else copy.deepcopy(action)


def _tree_of_actions(space: gym.Space[Any]) -> Converter:
    tree = Tree.of(space)
    parts = {path: action_converter(part) for path, part in leaf_spaces(space)}

    def convert(action: Any) -> Any:
        by_path = isinstance(action, np.void) or (type(action) is dict and action.keys() == parts.keys())
        leaves = action if by_path else tree.flat(action)
        return tree.built({path: part(leaves[path]) for path, part in parts.items()})

    return convert


def _text(space: spaces.Text, name: str, where: str, obs: Any) -> str:
    if not isinstance(obs, str):
        raise UserError(
            f"The {where} of {name} is {shown(obs)}, not a str.",
            remedy="Make the observation and the observation space agree.",
            code="obs-type",
        )
    if not space.contains(obs):
        raise _outside(repr(obs[:60]), space, name, where)
    return str(obs)


def _sequence_converter(space: spaces.Sequence, name: str, path: str) -> Converter:
    part = obs_converter(space.feature_space, name, join(path, "*"))

    def convert(obs: Any) -> tuple[Any, ...]:
        if isinstance(obs, str | dict) or not hasattr(obs, "__len__"):
            where = f"observation at '{path}'" if path else "observation"
            raise UserError(
                f"The {where} of {name} is {shown(obs)}, not a sequence.",
                remedy="Make the observation and the observation space agree.",
                code="obs-type",
            )
        return tuple(part(entry) for entry in obs)

    return convert


def _tuple_converter(space: spaces.Tuple[Any], name: str, path: str, notes: list[str] | None) -> Converter:
    parts = [obs_converter(part, name, join(path, i), notes) for i, part in enumerate(space.spaces)]

    def convert(obs: Any) -> tuple[Any, ...]:
        if not isinstance(obs, tuple | list) or len(obs) != len(parts):
            where = f"observation space at '{path}'" if path else "observation space"
            raise UserError(
                f"The {where} of {name} is a tuple of {len(parts)}, but the observation is {shown(obs)}.",
                remedy="Make the observation and the space agree.",
                code="obs-keys",
            )
        return tuple(part(own) for part, own in zip(parts, obs, strict=True))

    return convert


def _dict_converter(space: spaces.Dict, name: str, path: str, notes: list[str] | None) -> Converter:
    parts = {key: obs_converter(part, name, join(path, key), notes) for key, part in space.spaces.items()}
    keys, where = parts.keys(), f" at '{path}'" if path else ""

    def convert(obs: Any) -> dict[str, Any]:
        if not isinstance(obs, dict) or obs.keys() != keys:
            found = f"one with the keys {sorted(map(str, obs))}" if isinstance(obs, dict) else shown(obs)
            raise UserError(
                f"The observation space{where} of {name} is a dictionary with the keys {sorted(keys)}, "
                f"but the observation is {found}.",
                remedy="Make the observation and the space agree.",
                code="obs-keys",
            )
        return {key: part(obs[key]) for key, part in parts.items()}

    return convert


def _array_converter(space: spaces.Box | spaces.MultiBinary, name: str, where: str, notes: list[str]) -> Converter:
    dtype = np.dtype(space.dtype)
    shape = space.shape
    noted = False

    def convert(obs: Any) -> npt.NDArray[Any]:
        nonlocal noted
        if type(obs) is np.ndarray and obs.dtype == dtype and obs.shape == shape:
            return obs.copy()
        fitted = _fitted(obs, shape, dtype, name, where)
        if not noted and dtype_differs(obs, dtype):
            noted = True
            notes.append(dtype_note(where, name, obs.dtype, dtype))
        return fitted

    return convert


def dtype_differs(obs: Any, dtype: np.dtype[Any]) -> bool:
    """Whether these are an array's floats of another type than the space's floats."""
    return isinstance(obs, np.ndarray) and obs.dtype.kind == dtype.kind == "f" and obs.dtype != dtype


def dtype_note(where: str, name: str, found: np.dtype[Any], dtype: np.dtype[Any]) -> str:
    """The remark on it."""
    return f"The {where} of {name} is {found}, but its space says {dtype}: it is converted at every step."


def _discrete_converter(space: spaces.Discrete, name: str, where: str) -> Converter:
    dtype = np.dtype(space.dtype)
    start, n = int(space.start), int(space.n)

    def convert(obs: Any) -> Any:
        value = _fitted(obs, (), dtype, name, where)[()]
        if not start <= value < start + n:
            raise _outside(value, space, name, where)
        return value

    return convert


def _multidiscrete_converter(space: spaces.MultiDiscrete, name: str, where: str) -> Converter:
    dtype = np.dtype(space.dtype)
    low = np.broadcast_to(np.asarray(space.start), space.nvec.shape)
    high = low + space.nvec

    def convert(obs: Any) -> npt.NDArray[Any]:
        array = _fitted(obs, space.shape, dtype, name, where)
        if not ((array >= low) & (array < high)).all():
            raise _outside(array, space, name, where)
        return array

    return convert


def _outside(value: Any, space: gym.Space[Any], name: str, where: str) -> UserError:
    return UserError(
        f"The {where} of {name} is {value}, which is outside its space {space}.",
        remedy="Widen the space or correct the observation.",
        code="obs-range",
    )


def _fitted(obs: Any, shape: tuple[int, ...], dtype: np.dtype[Any], name: str, where: str) -> npt.NDArray[Any]:
    """A fresh array of this shape and dtype; integers are never made from numbers that they cannot hold."""
    try:
        array = np.asarray(obs)
    except ValueError:
        array = np.array(None)
    if array.dtype.kind not in "biuf":
        raise UserError(
            f"The {where} of {name} is {shown(obs)}, not numbers of shape {shape}.",
            remedy="Return a NumPy array of the observation space's shape.",
            code="obs-type",
        )
    if array.shape != shape:
        raise UserError(
            f"The {where} of {name} has shape {array.shape}, but its space says {shape}.",
            remedy="Make the observation and the observation space agree.",
            code="obs-shape",
        )
    with np.errstate(invalid="ignore", over="ignore"):
        fitted = array.astype(dtype)
    if dtype.kind == "f":
        _insist_on_held(array, fitted, name, where)
        return fitted
    if not np.array_equal(fitted, array):
        raise UserError(
            f"The {where} of {name} holds {array.dtype} numbers that its space's {dtype} cannot hold.",
            remedy="Give the observation space the dtype that the observations have.",
            code="obs-dtype",
        )
    return fitted


def _insist_on_held(array: npt.NDArray[Any], fitted: npt.NDArray[Any], name: str, where: str) -> None:
    """Raise RunFailedError where a finite number is too large for the type; NaN and infinity are found later."""
    lost = np.isinf(fitted) & np.isfinite(array)
    if lost.any():
        raise RunFailedError(
            f"The {where} of {name} holds {array[lost][0]!s}, too large for its space's {fitted.dtype}.",
            remedy="Find out in the environment where the number comes from, and scale or clip it.",
            code="env-absurd",
        )
