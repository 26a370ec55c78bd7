"""One frozen dataclass an algorithm; no torch."""

from __future__ import annotations

from steadyrl.configs.a2c import A2CConfig
from steadyrl.configs.on_policy import OnPolicyConfig
from steadyrl.configs.ppo import PPOConfig
from steadyrl.configs.schedules import LinearSchedule, Schedule, value_at

CONFIGS: dict[str, type[OnPolicyConfig]] = {"ppo": PPOConfig, "a2c": A2CConfig}

__all__ = ["CONFIGS", "A2CConfig", "LinearSchedule", "OnPolicyConfig", "PPOConfig", "Schedule", "value_at"]
