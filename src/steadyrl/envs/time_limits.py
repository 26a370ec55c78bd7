"""The time limits of an environment among its wrappers."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym


class OwnLimit(gym.Wrapper[Any, Any, Any, Any]):
    """Counts the steps of an environment that keeps its time limit itself; it truncates nothing.

    Its attributes are named as those of `gymnasium.wrappers.TimeLimit`.
    """

    def __init__(self, env: gym.Env[Any, Any], limit: int) -> None:
        super().__init__(env)
        self._max_episode_steps = limit
        self._elapsed_steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """No time has passed."""
        self._elapsed_steps = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Count a step."""
        self._elapsed_steps += 1
        return self.env.step(action)


def limits_of(env: gym.Env[Any, Any]) -> list[Any]:
    """The wrappers that limit an environment's episodes; where there are none, those that only count."""
    layers = []
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        layers.append(layer)
        layer = layer.env
    limits = [found for found in layers if isinstance(found, gym.wrappers.TimeLimit)]
    return limits or [found for found in layers if isinstance(found, OwnLimit)]
