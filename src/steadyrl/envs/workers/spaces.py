"""Which observations and actions can lie in shared memory, and how."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from steadyrl.envs.workers.board import Array

Leaves = dict[str, npt.NDArray[Any]]

_FIXED = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def leaves_of(space: gym.Space[Any], num_envs: int) -> dict[str, Array] | None:
    """The arrays [N, ...] for N values of the space: under `""`, or under each key of a Dict.

    None where its values have no fixed size: they are sent instead.
    """
    parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
    leaves = {}
    for key, part in parts.items():
        if not isinstance(part, _FIXED):
            return None
        leaves[key] = Array((num_envs, *(part.shape or ())), np.dtype(part.dtype).str)
    return leaves


def put(leaves: Leaves, rows: list[Any], first: int) -> None:
    """Write these observations into the rows from `first` on."""
    end = first + len(rows)
    for key, leaf in leaves.items():
        leaf[first:end] = [row[key] for row in rows] if key else rows


def batch_of(leaves: Leaves) -> Any:
    """All rows as the vector environment returns them, fresh."""
    if "" in leaves:
        return leaves[""].copy()
    return {key: leaf.copy() for key, leaf in leaves.items()}
