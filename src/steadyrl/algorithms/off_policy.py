"""Parts that the off-policy algorithms share."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steadyrl.algorithms.guard import Guard
from steadyrl.algorithms.metrics import Metrics
from steadyrl.data.targets import polyak
from steadyrl.data.transitions import ReplayBatch
from steadyrl.nn.policy import Policy
from steadyrl.nn.trainable import Trainable
from steadyrl.spaces import ObsTree


class BatchSource(Protocol):
    """Where minibatches come from: normalised, on the policy's device."""

    def sample(self, batch_size: int) -> ReplayBatch:
        """B transitions."""
        ...

    def update_priorities(self, batch: ReplayBatch, td_errors: Tensor) -> None:
        """Hand back the magnitudes of the TD errors, [B]."""
        ...


class OffPolicyAlgorithm(Protocol):
    """What the off-policy loop is called with."""

    policy: Policy
    guard: Guard

    def act(self, obs: ObsTree, step: int, progress: float) -> npt.NDArray[Any]:
        """Actions for normalised observations, [N, ...]: [-1, 1] space, or integers.

        `step` counts from the empty replay.
        """
        ...

    def ended(self, done: npt.NDArray[np.bool_]) -> None:
        """Told where the next action is not the next one of the same episode, [N]."""
        ...

    def learn(self, source: BatchSource, gradient_steps: int, step: int, progress: float) -> Metrics:
        """Minibatches of one update; returns its metrics."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly, besides the policy."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        ...


def follow(target: Trainable, online: Trainable, tau: float, permit: Tensor | None = None) -> None:
    """The target network takes a step of size `tau` to the online one; see `targets.polyak`.

    Args:
        target: Takes the step.
        online: Where it goes.
        tau: Size of the step.
        permit: On the device, whether it may be taken; None is yes.
    """
    if permit is not None:
        data = target.flat.data
        data.copy_(torch.where(permit, data.lerp(online.flat.data, tau), data))
    elif target.flat.native:
        from steadyrl.kernels import _native

        _native.polyak(target.flat.data, online.flat.data, tau)
    else:
        polyak(target.flat.data, online.flat.data, tau)
