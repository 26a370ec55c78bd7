"""Transitions on their way into a replay and out of it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steadyrl.spaces import ObsTree

TensorTree = dict[str, Tensor]
Bools = npt.NDArray[np.bool_]


class StepRows(Protocol):
    """What the replay takes from a vector step (`envs.types.Step`), dense over N environments."""

    @property
    def final_obs(self) -> ObsTree:
        """True successors, leaves [N, ...]."""
        ...

    @property
    def rewards(self) -> npt.NDArray[Any]:
        """Raw rewards, [N]."""
        ...

    @property
    def terminated(self) -> Bools:
        """[N]."""
        ...

    @property
    def truncated(self) -> Bools:
        """[N]."""
        ...


class ReplayBatch(NamedTuple):
    """Transitions over one or more steps, for the target `rewards + discounts * ~terminated * value(next_obs)`."""

    obs: TensorTree  # leaves [B, ...]
    actions: Tensor  # [B, size] float32 in the policy's space, or [B] / [B, K] int64
    rewards: Tensor  # [B] float32, discounted sum over the steps taken
    next_obs: TensorTree  # leaves [B, ...], true successor of the last step taken
    terminated: Tensor  # [B] bool, of the last step taken
    discounts: Tensor  # [B] float32, gamma ** (steps taken)
    weights: Tensor  # [B] float32, importance weights, 1 where sampling is uniform
    # A namedtuple's field may hide the method `tuple.index`, which nobody needs here.
    index: Tensor  # type: ignore[assignment]  # [B] int64, the transitions' numbers

    def to(self, device: torch.device) -> ReplayBatch:
        """The same transitions on this device."""
        obs = {path: leaf.to(device) for path, leaf in self.obs.items()}
        next_obs = {path: leaf.to(device) for path, leaf in self.next_obs.items()}
        parts = (self.terminated, self.discounts, self.weights, self.index)
        return ReplayBatch(
            obs, self.actions.to(device), self.rewards.to(device), next_obs, *(part.to(device) for part in parts)
        )
