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


class Averages(gym.ObservationWrapper[Any, Any, Any]):
    """Observations less the mean of all so far, which goes on from episode to episode."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.count = 0
        self.mean: Any = np.zeros(env.observation_space.shape)

    def observation(self, observation: Any) -> Any:
        self.count += 1
        self.mean = self.mean + (observation - self.mean) / self.count
        return (observation - self.mean).astype(np.float32)


class Normal(gym.wrappers.NormalizeObservation):
    """Learns statistics."""


class Preprocessing(gym.wrappers.AtariPreprocessing):
    """One that needs no OpenCV."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.Wrapper.__init__(self, env)


def preprocessed(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    return Preprocessing(env)


def normalised(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(gym.wrappers.NormalizeReward(env), 9)


class Buttons(gym.ActionWrapper[Any, Any, Any]):
    """Presses one of the buttons given, by default two of them.

    Args:
        env: The environment.
        buttons: Actions of the environment.
        way: Actions are a number, numbers, or a part of a dictionary.
    """

    def __init__(self, env: gym.Env[Any, Any], buttons: tuple[int, ...] = (2, 3), way: str = "number") -> None:
        super().__init__(env)
        count = len(buttons)
        self.action_space = {
            "number": gym.spaces.Discrete(count),
            "numbers": gym.spaces.MultiDiscrete([count]),
            "part": gym.spaces.Dict({"button": gym.spaces.Discrete(count)}),
            "text": gym.spaces.Text(1),
        }[way]
        self.buttons, self.way = buttons, way

    def action(self, action: Any) -> Any:
        return self.buttons[action["button"] if self.way == "part" else action[0] if self.way == "numbers" else action]


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
