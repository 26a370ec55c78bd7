"""One frozen dataclass an algorithm; no torch."""

from __future__ import annotations

from steadyrl.configs.a2c import A2CConfig
from steadyrl.configs.dqn import DQNConfig
from steadyrl.configs.off_policy import OffPolicyConfig
from steadyrl.configs.on_policy import OnPolicyConfig
from steadyrl.configs.ppo import PPOConfig
from steadyrl.configs.sac import SACConfig
from steadyrl.configs.schedules import LinearSchedule, Schedule, value_at
from steadyrl.configs.td3 import DDPGConfig, TD3Config

Config = OnPolicyConfig | OffPolicyConfig
CONFIGS: dict[str, type[Config]] = {
    "ppo": PPOConfig,
    "a2c": A2CConfig,
    "dqn": DQNConfig,
    "ddpg": DDPGConfig,
    "td3": TD3Config,
    "sac": SACConfig,
}

__all__ = [
    "CONFIGS",
    "A2CConfig",
    "Config",
    "DDPGConfig",
    "DQNConfig",
    "LinearSchedule",
    "OffPolicyConfig",
    "OnPolicyConfig",
    "PPOConfig",
    "SACConfig",
    "Schedule",
    "TD3Config",
    "value_at",
]
