"""The algorithms; none knows of environments, runs or loggers."""

from __future__ import annotations

from steadyrl.algorithms.a2c import A2C
from steadyrl.algorithms.dqn import DQN
from steadyrl.algorithms.off_policy import BatchSource, OffPolicyAlgorithm
from steadyrl.algorithms.on_policy import OnPolicyAlgorithm
from steadyrl.algorithms.ppo import PPO
from steadyrl.algorithms.sac import SAC
from steadyrl.algorithms.sac_discrete import DiscreteSAC
from steadyrl.algorithms.td3 import TD3
from steadyrl.configs import (
    A2CConfig,
    DQNConfig,
    OffPolicyConfig,
    OnPolicyConfig,
    PPOConfig,
    SACConfig,
    TD3Config,
)
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Seeds


def make_on_policy(config: OnPolicyConfig, policy: Policy, seeds: Seeds) -> OnPolicyAlgorithm:
    """The algorithm that this configuration belongs to."""
    if isinstance(config, PPOConfig):
        return PPO(config, policy, seeds)
    if isinstance(config, A2CConfig):
        return A2C(config, policy, seeds)
    raise TypeError(f"no algorithm for {type(config).__name__}")


def make_off_policy(config: OffPolicyConfig, policy: Policy, seeds: Seeds) -> OffPolicyAlgorithm:
    """The algorithm that this configuration belongs to."""
    if isinstance(config, DQNConfig):
        return DQN(config, policy, seeds)
    if isinstance(config, TD3Config):
        return TD3(config, policy, seeds)
    if isinstance(config, SACConfig):
        return (DiscreteSAC if policy.action_spec.kind == "discrete" else SAC)(config, policy, seeds)
    raise TypeError(f"no algorithm for {type(config).__name__}")


__all__ = [
    "A2C",
    "DQN",
    "PPO",
    "SAC",
    "TD3",
    "BatchSource",
    "DiscreteSAC",
    "OffPolicyAlgorithm",
    "OnPolicyAlgorithm",
    "make_off_policy",
    "make_on_policy",
]
