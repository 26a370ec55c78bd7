"""Environments that fail, tell where they live, or keep to an interface of the past."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from support.envs import ConstantReward, Ending, Reset, ScriptedVector, Stepped


class Failing(gym.Env[npt.NDArray[np.float32], np.int64]):
    """Goes wrong at step `at` of every episode, or at the reset for 0.

    Args:
        how: `raise` an error, `sys.exit`, `exit` the process, `hang`, tell a `nan-obs`, `inf-obs` or `nan-reward`.
        at: When.
    """

    def __init__(self, how: str, at: int) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.how = how
        self.at = at
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.t = 0
        return self._now()[0], {}

    def step(self, action: Any) -> Stepped:
        self.t += 1
        obs, reward = self._now()
        return obs, reward, False, False, {}

    def _now(self) -> tuple[npt.NDArray[np.float32], float]:
        obs, reward = np.zeros(2, dtype=np.float32), 1.0
        if self.t != self.at:
            return obs, reward
        if self.how == "raise":
            raise LookupError("the motor fell off")
        if self.how == "sys.exit":
            sys.exit(0)
        if self.how == "exit":
            os._exit(7)
        if self.how == "hang":
            time.sleep(1000)
        obs[1] = {"nan-obs": np.nan, "inf-obs": np.inf}.get(self.how, 0.0)
        return obs, float("nan") if self.how == "nan-reward" else reward


class ToldModules(gym.Env[npt.NDArray[np.float32], np.int64]):
    """The observation tells whether torch is imported where the environment lives."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        return np.array(["torch" in sys.modules], dtype=np.float32), {}

    def step(self, action: Any) -> Stepped:
        return np.zeros(1, dtype=np.float32), 0.0, False, False, {}


class OldReset(ConstantReward):
    """A Gymnasium class whose `reset` still returns the observation alone."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return super().reset(seed=seed)[0]


class OldResetArguments(ConstantReward):
    """A Gymnasium class whose `reset` takes no seed."""

    def reset(self) -> Reset:  # type: ignore[override]
        return super().reset()


class OldStep(ConstantReward):
    """A Gymnasium class whose `step` still returns four values."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, info


class OldGym:
    """What an environment of the old `gym` package looks like from outside: no Gymnasium class, the same methods."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self) -> Any:
        return np.zeros(2, dtype=np.float32)

    def step(self, action: Any) -> Any:
        return np.zeros(2, dtype=np.float32), 1.0, False, {}


class Altered(ScriptedVector):
    """Two environments of endless episodes, or of one step where `ends`; `alter` changes what `step` returns.

    Args:
        alter: From [obs, rewards, terminated, truncated, infos] to what is returned.
        mode: The autoreset mode.
        ends: Both episodes end at each step.
    """

    def __init__(
        self,
        alter: Callable[[list[Any]], Any],
        mode: gym.vector.AutoresetMode = gym.vector.AutoresetMode.NEXT_STEP,
        ends: bool = False,
    ) -> None:
        super().__init__([[Ending(1 if ends else 10**6, True, False)]] * 2, mode)
        self.alter = alter

    def step(self, actions: Any) -> Any:
        return self.alter(list(super().step(actions)))


class Walk(gym.Env[Any, Any]):
    """Observes `values(t)` in one entry at step t; other than that nothing happens."""

    def __init__(self, space: gym.Space[Any], values: Callable[[int], Any]) -> None:
        self.observation_space = space
        self.action_space = spaces.Discrete(2)
        self.values = values
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.t = 0
        return self.values(0), {}

    def step(self, action: Any) -> Stepped:
        self.t += 1
        return self.values(self.t), 0.0, False, False, {}
