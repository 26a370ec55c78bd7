"""Environments with a known answer for the training loop. They import no torch, and spawned workers can import them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from support.envs import ConstantReward, Reset, SpaceProbe, Stepped

Actions = npt.NDArray[Any]


class Pays(gym.Env[npt.NDArray[np.float32], np.int64]):
    """Pays `reward` every step, over episodes of `length` steps that terminate.

    The observation is the step, one-hot, so V(step t) = reward * (1 - gamma ** (length - t)) / (1 - gamma) can be
    learnt exactly.
    """

    def __init__(self, length: int = 5, reward: float = 1.0) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (length + 1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.length = length
        self.reward = reward
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.t = 0
        return self._obs(), {}

    def step(self, action: Any) -> Stepped:
        self.t += 1
        return self._obs(), self.reward, self.t >= self.length, False, {}

    def _obs(self) -> npt.NDArray[np.float32]:
        obs = np.zeros(self.length + 1, dtype=np.float32)
        obs[self.t] = 1.0
        return obs


class PaysFive(ConstantReward):
    """Truncates only, and pays 5 a step."""

    def step(self, action: Any) -> Stepped:
        obs, _, terminated, truncated, info = super().step(action)
        return obs, 5.0, terminated, truncated, info


class EndsInstead(ConstantReward):
    """The time limit told as the end of the task: what treating truncation as termination looks like."""

    def step(self, action: Any) -> Stepped:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated or truncated, False, info


class PaysVector(gym.vector.VectorEnv[Any, Any, Any]):
    """Two environments in one that pay 1 every step; written by hand, in any autoreset mode.

    Episodes of environment i last `length + i` steps and only ever truncate. A made-up row of NEXT_STEP tells a
    reward of 0 and the reset observation, as Gymnasium says. Observations are random.
    """

    def __init__(self, mode: AutoresetMode, num_envs: int = 2, length: int = 7) -> None:
        self.metadata = {"autoreset_mode": mode}
        self.mode = mode
        self.num_envs = num_envs
        self.single_observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)
        self.lengths = length + np.arange(num_envs)
        self.t = np.zeros(num_envs, dtype=np.int64)
        self.over = np.zeros(num_envs, dtype=np.bool_)
        self.real_steps = 0

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Reset:
        if seed is not None:
            self._np_random = np.random.default_rng(seed)
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, dtype=np.bool_))
        self.t[mask] = 0
        self.over &= ~mask
        obs = self._obs()
        obs[~mask] = np.nan  # rows that were not asked for hold nothing
        return obs, {}

    def step(self, actions: Any) -> Stepped:
        made_up = self.over.copy()
        assert self.mode is AutoresetMode.NEXT_STEP or not made_up.any(), "stepped a finished environment"
        self.real_steps += int((~made_up).sum())
        self.t = np.where(made_up, 0, self.t + 1)
        truncated = self.t >= self.lengths
        self.over = truncated.copy()
        obs, info = self._obs(), {}
        if self.mode is AutoresetMode.SAME_STEP and truncated.any():
            final: npt.NDArray[Any] = np.full(self.num_envs, None, dtype=object)
            for i in np.flatnonzero(truncated):
                final[i] = obs[i].copy()
            info = {"final_obs": final, "_final_obs": truncated.copy()}
            obs = np.where(truncated[:, None], self._obs(), obs)
            self.t[truncated] = 0
            self.over[:] = False
        return obs, (~made_up).astype(np.float64), np.zeros(self.num_envs, dtype=np.bool_), truncated, info

    def _obs(self) -> npt.NDArray[np.float32]:
        return self.np_random.uniform(-1, 1, (self.num_envs, 2)).astype(np.float32)


class Legs(gym.Env[npt.NDArray[np.float64], npt.NDArray[np.float32]]):
    """Of the size of HalfCheetah, 17 observations and 6 actions, at the price of two small products.

    Linear dynamics with noise; the reward is high where the action undoes the drift. Episodes truncate after 40 steps.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (17,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (6,), np.float32)
        fixed = np.random.default_rng(0)
        self.drift = fixed.normal(size=(17, 17)) / 6
        self.effect = fixed.normal(size=(6, 17)) / 3
        self.x = np.zeros(17)
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.x = self.np_random.normal(size=17)
        self.t = 0
        return self.x.copy(), {}

    def step(self, action: Any) -> Stepped:
        self.t += 1
        self.x = self.x @ self.drift + action @ self.effect + 0.1 * self.np_random.normal(size=17)
        return self.x.copy(), 1.0 - float(np.abs(self.x).mean()), False, self.t >= 40, {}


class GlobalDrawer(ConstantReward):
    """Draws what it observes from NumPy's process-wide generator, as careless environments do."""

    def _obs(self) -> npt.NDArray[np.float32]:
        return np.random.uniform(-1, 1, 2).astype(np.float32)


class SeedLength(gym.Env[npt.NDArray[np.float32], np.int64]):
    """Episodes last as many steps as a random number says, 1 to 40, and pay 1 a step: the return tells the seed."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.length = 0
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.t = 0
        self.length = int(self.np_random.integers(1, 41))
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action: Any) -> Stepped:
        self.t += 1
        return np.zeros(1, dtype=np.float32), 1.0, self.t >= self.length, False, {}


def length_of(seed: int) -> int:
    """Length of the episode of `SeedLength` that this seed starts."""
    env = SeedLength()
    env.reset(seed=seed)
    return env.length


class Scales(gym.Env[npt.NDArray[np.float64], np.int64]):
    """The best action is told by two observations that differ in scale by a million (case 12).

    The observation is [1e-3 * x, 1e3 * y], x and y in [-1, 1]; the reward is 1 where the action says whether x + y >
    0, else 0.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Discrete(2)
        self.xy = np.zeros(2)
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.t = 0
        return self._next(), {}

    def step(self, action: Any) -> Stepped:
        self.t += 1
        reward = float(int(action) == int(self.xy.sum() > 0))
        return self._next(), reward, False, self.t >= 20, {}

    def _next(self) -> npt.NDArray[np.float64]:
        self.xy = self.np_random.uniform(-1, 1, 2)
        return np.multiply(self.xy, [1e-3, 1e3])


class Fast(gym.Env[npt.NDArray[np.float32], np.int64]):
    """As little as an environment can do: counts its steps, truncates after 50."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action: Any) -> Stepped:
        self.t += 1
        return np.zeros(1, dtype=np.float32), 1.0, False, self.t >= 50, {}


class Keeper(SpaceProbe):
    """A `SpaceProbe` that can be found again: every instance made in this process is in `made`."""

    made: ClassVar[list[Keeper]] = []

    def __init__(self, observation_space: gym.Space[Any], action_space: gym.Space[Any], horizon: int = 5) -> None:
        super().__init__(observation_space, action_space, horizon)
        self.made.append(self)


class Watched(ConstantReward):
    """Tells from outside what happens: writes files into `place` when training and when evaluation have begun.

    Only evaluation seeds an environment more than once. With `endless`, its episodes never end by themselves.
    """

    def __init__(self, place: str, endless: bool = False, pause_s: float = 0.0) -> None:
        super().__init__(horizon=7)
        self.place = Path(place)
        self.endless = endless
        self.pause_s = pause_s
        self.seeded = 0
        self.evaluating = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        self.seeded += seed is not None
        self.evaluating = self.seeded > 1
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Stepped:
        (self.place / ("evaluating" if self.evaluating else "training")).touch()
        time.sleep(self.pause_s)
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, truncated and not (self.evaluating and self.endless), info
