"""The arrays of a step, which lie in shared memory."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from steadyrl.envs.types import BoolArray, FloatArray
from steadyrl.envs.workers.board import Array, arrays_in, arrays_size
from steadyrl.envs.workers.log import ActionLog
from steadyrl.errors import UserError
from steadyrl.spaces.tree import FIXED, Tree, leaf_spaces

Leaves = dict[str, npt.NDArray[Any]]


class Layout(NamedTuple):
    """The arrays of a step, as they follow each other in the shared memory.

    Attributes:
        offset: Of the first of them, in bytes.
        actions: [N, ...]
        rewards: [N]
        flags: [N], once for `terminated` and once for `truncated`.
        leaves: [N, ...] of the observations by path; None where they are sent.
        tree: How the observations hold them.
    """

    offset: int
    actions: Array
    rewards: Array
    flags: Array
    leaves: dict[str, Array] | None
    tree: Tree

    @classmethod
    def of(cls, observation: gym.Space[Any], action: gym.Space[Any], num_envs: int, offset: int) -> Layout:
        """The arrays for N environments of these spaces.

        Raises:
            UserError: actions have no fixed size.
        """
        leaves = leaves_of(observation, num_envs)
        actions = actions_of(action, num_envs)
        return cls(offset, actions, Array((num_envs,), "<f8"), Array((num_envs,), "|b1"), leaves, Tree.of(observation))

    @property
    def arrays(self) -> list[Array]:
        """All of them, in order."""
        return [self.actions, self.rewards, self.flags, self.flags, *(self.leaves or {}).values()]


class Shared:
    """The arrays themselves.

    Attributes:
        actions: [N, ...]
        rewards: [N]
        terminated: [N]
        truncated: [N]
        leaves: As in `Layout`.

    Args:
        file: Descriptor of the shared memory.
        layout: Where they are.
    """

    def __init__(self, file: int, layout: Layout) -> None:
        views = arrays_in(file, layout.offset, layout.arrays)
        self.actions = views[0]
        self.rewards: FloatArray = views[1]
        self.terminated: BoolArray = views[2]
        self.truncated: BoolArray = views[3]
        self.leaves: Leaves | None = None if layout.leaves is None else dict(zip(layout.leaves, views[4:], strict=True))

    @staticmethod
    def room(file: int, layout: Layout) -> None:
        """Make the shared memory large enough."""
        os.ftruncate(file, layout.offset + arrays_size(layout.arrays))


class Stepping:
    """The parent's side of the arrays, with a log of the actions.

    Nothing that it returns shares memory with it: what an error's traceback keeps would keep the memory.
    """

    def __init__(self, file: int, layout: Layout) -> None:
        Shared.room(file, layout)
        self._arrays = Shared(file, layout)
        self.layout = layout
        self.log = ActionLog(self._arrays.actions)

    def show(self, actions: npt.NDArray[Any], origins: memoryview, name: str) -> None:
        """Put the actions where the workers find them.

        Args:
            actions: [N, ...]
            origins: As `ActionLog.add` takes them.
            name: How errors call the environment.

        Raises:
            UserError: they have another shape.
        """
        own = self._arrays.actions
        if actions.shape != own.shape:
            raise UserError(
                f"The actions for {name} have shape {actions.shape} instead of {own.shape}.",
                remedy="Pass one action for each environment.",
                code="vector-shape",
            )
        own[...] = actions
        self.log.add(own, origins)

    def make_up(self, block: range) -> None:
        """Rewards and flags of environments that were started anew."""
        rows = slice(block.start, block.stop)
        self._arrays.rewards[rows], self._arrays.terminated[rows], self._arrays.truncated[rows] = 0.0, False, False

    def told(self) -> tuple[FloatArray, BoolArray, BoolArray]:
        """Rewards and flags, fresh."""
        arrays = self._arrays
        return arrays.rewards.copy(), arrays.terminated.copy(), arrays.truncated.copy()

    def obs(self) -> Any:
        """The observations as the vector environment returns them, fresh; None where they are sent."""
        leaves = self._arrays.leaves
        if leaves is None:
            return None
        return leaves[""].copy() if "" in leaves else self.layout.tree.built({p: a.copy() for p, a in leaves.items()})


def leaves_of(space: gym.Space[Any], num_envs: int) -> dict[str, Array] | None:
    """The arrays [N, ...] for N values of the space, by path.

    None where its values have no fixed size: they are sent instead.
    """
    leaves = {}
    for path, part in leaf_spaces(space):
        if not isinstance(part, FIXED):
            return None
        leaves[path] = Array((num_envs, *(part.shape or ())), np.dtype(part.dtype).str)
    return leaves


def actions_of(space: gym.Space[Any], num_envs: int) -> Array:
    """The array [N, ...] for N actions; those of a Dict or Tuple are structured, with a field for each leaf.

    Raises:
        UserError: they have no fixed size.
    """
    leaves = leaves_of(space, num_envs)
    if leaves is None:
        raise UserError(
            f"Actions of {space} cannot be sent to another process.", remedy="Use vec='sync'.", code="env-spaces"
        )
    if "" in leaves:
        return leaves[""]
    return Array((num_envs,), [(path, leaf.dtype, leaf.shape[1:]) for path, leaf in leaves.items()])


def put(leaves: Leaves, rows: list[Any], first: int, tree: Tree) -> None:
    """Write these observations into the rows from `first` on."""
    end = first + len(rows)
    if "" in leaves:
        leaves[""][first:end] = rows
        return
    flat = [tree.flat(row) for row in rows]
    for path, leaf in leaves.items():
        leaf[first:end] = [row[path] for row in flat]
