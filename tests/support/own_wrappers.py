"""Wrappers that tests name: `support.own_wrappers:Halves`, or by this file's path."""

from __future__ import annotations

from typing import Any

import gymnasium as gym


class Halves(gym.RewardWrapper[Any, Any]):
    """Rewards times a factor, by default a half."""

    def __init__(self, env: gym.Env[Any, Any], factor: float = 0.5) -> None:
        super().__init__(env)
        self.factor = factor

    def reward(self, reward: Any) -> float:
        return float(reward) * self.factor


def no_env(env: gym.Env[Any, Any]) -> str:
    return "nothing"
