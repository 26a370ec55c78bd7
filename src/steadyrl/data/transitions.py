"""Transitions on their way into a replay and out of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steadyrl.spaces import ObsTree

TensorTree = dict[str, Tensor]
Bools = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]


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


class Inside(NamedTuple):
    """Where the later actions of n-step windows were taken."""

    obs: TensorTree  # leaves [B * (n - 1), ...], window by window; anything beyond a window's end
    discounts: Tensor  # [B, n - 1] float32, gamma ** (steps from the window's start), 0 beyond its end


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
    inside: Inside | None = None  # only where the replay was asked for it and windows have more than one step

    def map_obs(self, change: Callable[[TensorTree], TensorTree]) -> ReplayBatch:
        """The same transitions with every observation changed; leaves keep their first dimension."""
        inside = self.inside and self.inside._replace(obs=change(self.inside.obs))
        return self._replace(obs=change(self.obs), next_obs=change(self.next_obs), inside=inside)

    def to(self, device: torch.device) -> ReplayBatch:
        """The same transitions on this device."""
        moved: dict[str, Any] = {
            name: part.to(device) for name, part in self._asdict().items() if isinstance(part, Tensor)
        }
        inside = self.inside and self.inside._replace(discounts=self.inside.discounts.to(device))
        batch = self._replace(**moved, inside=inside)
        return batch.map_obs(lambda obs: {path: leaf.to(device) for path, leaf in obs.items()})
