"""Configuration of TD3 (arXiv:1802.09477), and of DDPG (arXiv:1509.02971), which is TD3 without its three additions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from steadyrl.configs.off_policy import ActorCriticOffPolicyConfig
from steadyrl.configs.schedules import Schedule
from steadyrl.configs.validate import at_least_one, not_negative


@dataclass(frozen=True, kw_only=True)
class TD3Config(ActorCriticOffPolicyConfig):
    """Hyperparameters of TD3; names and defaults are Stable-Baselines3's, with the papers' exploration noise."""

    learning_rate: Schedule = 1e-3
    """Step size of both optimisers."""
    net_arch: tuple[int, ...] | dict[str, tuple[int, ...]] = (400, 300)
    """Hidden layers of every network, or {'pi': (400, 300), 'qf': (400, 300)}."""
    action_noise_type: Literal["none", "normal", "ornstein-uhlenbeck"] = "normal"
    """Noise added to actions while training, per environment and per dimension."""
    n_critics: int = 2
    """Critics, of which targets take the smallest."""
    policy_delay: int = 2
    """Critic updates for each update of the actor and of all target networks."""
    target_policy_noise: float = 0.2
    """Standard deviation of the noise on target actions, in [-1, 1] space."""
    target_noise_clip: float = 0.5
    """Its largest magnitude."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self, "n_critics", "policy_delay")
        not_negative(self, "target_policy_noise", "target_noise_clip")


@dataclass(frozen=True, kw_only=True)
class DDPGConfig(TD3Config):
    """Hyperparameters of DDPG: TD3 with one critic, no delay and no noise on target actions."""

    n_critics: int = 1
    """Critics, of which targets take the smallest."""
    policy_delay: int = 1
    """Critic updates for each update of the actor and of all target networks."""
    target_policy_noise: float = 0.0
    """Standard deviation of the noise on target actions, in [-1, 1] space."""
