"""What the on-policy loop asks of an algorithm."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from steadyrl.algorithms.exploration import Exploration
from steadyrl.algorithms.guard import Guard
from steadyrl.data.rollout import RolloutBatch
from steadyrl.data.sequences import SequenceBatch
from steadyrl.nn.policy import Policy


class OnPolicyAlgorithm(Protocol):
    """What the on-policy loop is called with."""

    policy: Policy
    guard: Guard
    exploration: Exploration

    def learn(self, batch: RolloutBatch | SequenceBatch, progress: float) -> dict[str, Tensor | float]:
        """One update; returns its metrics."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly, besides the policy."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        ...
