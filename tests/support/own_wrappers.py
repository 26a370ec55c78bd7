"""Wrappers that tests name: `support.own_wrappers:Halves`, or by this file's path."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Halves(gym.RewardWrapper[Any, Any]):
    """Rewards times a factor, by default a half."""

    def __init__(self, env: gym.Env[Any, Any], factor: float = 0.5) -> None:
        super().__init__(env)
        self.factor = factor

    def reward(self, reward: Any) -> float:
        return float(reward) * self.factor


def no_env(env: gym.Env[Any, Any]) -> str:
    return "nothing"


class Passing(gym.Wrapper[Any, Any, Any, Any]):
    """Changes nothing."""


class Masking(gym.Wrapper[Any, Any, Any, Any]):
    """Forbids the first action, of two.

    Args:
        env: The environment.
        method: By `action_masks()` instead of `info`.
    """

    def __init__(self, env: gym.Env[Any, Any], method: bool = False) -> None:
        super().__init__(env)
        if method:
            self.action_masks = lambda: np.array([0, 1])
        self._told = {} if method else {"action_mask": np.array([0, 1])}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=seed, options=options)[0], dict(self._told)

    def step(self, action: Any) -> Any:
        *told, _ = self.env.step(action)
        return *told, dict(self._told)
