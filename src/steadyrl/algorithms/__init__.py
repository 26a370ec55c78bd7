"""The algorithms; none knows of environments, runs or loggers."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from steadyrl.algorithms.a2c import A2C
from steadyrl.algorithms.exploration import Exploration
from steadyrl.algorithms.ppo import PPO
from steadyrl.configs import A2CConfig, OnPolicyConfig, PPOConfig
from steadyrl.data.rollout import RolloutBatch
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Seeds


class OnPolicyAlgorithm(Protocol):
    """What the on-policy loop is called with."""

    policy: Policy
    exploration: Exploration

    def learn(self, batch: RolloutBatch, progress: float) -> dict[str, Tensor | float]:
        """One update; returns its metrics."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly, besides the policy."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        ...


def make_algorithm(config: OnPolicyConfig, policy: Policy, seeds: Seeds) -> OnPolicyAlgorithm:
    """The algorithm that this configuration belongs to."""
    if isinstance(config, PPOConfig):
        return PPO(config, policy, seeds)
    if isinstance(config, A2CConfig):
        return A2C(config, policy, seeds)
    raise TypeError(f"no algorithm for {type(config).__name__}")


__all__ = ["A2C", "PPO", "OnPolicyAlgorithm", "make_algorithm"]
