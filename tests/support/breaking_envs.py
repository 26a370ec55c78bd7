"""Environments that break where a plan says so, and tell in each observation which episode and step it is of."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from support.envs import Reset, Stepped


@dataclass
class Plan:
    """Which episodes break at which step, in the order in which episodes are begun, over all environments.

    Attributes:
        failing: (episode, step); step 0 is in reset.
        length: Steps of an episode that ends by itself.
        making: Numbers of the environments, in the order in which they are made, whose constructor fails.
        begun: Seed of each episode.
        broken: Episodes that broke.
        made: Environments made.
    """

    failing: set[tuple[int, int]] = field(default_factory=set)
    length: int = 5
    making: set[int] = field(default_factory=set)
    truncates: bool = False
    begun: list[int | None] = field(default_factory=list)
    broken: list[int] = field(default_factory=list)
    made: int = 0
    closed: int = 0

    def __call__(self) -> Planned:
        """Make an environment."""
        self.made += 1
        if self.made - 1 in self.making:
            raise ConnectionError("no simulator answers")
        return Planned(self)


class Planned(gym.Env[npt.NDArray[np.float32], np.int64]):
    """Observes (episode, step, action before); pays 1 + episode + step / 100."""

    def __init__(self, plan: Plan) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.plan = plan
        self.episode, self.t = -1, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.episode, self.t = len(self.plan.begun), 0
        self.plan.begun.append(seed)
        self._break()
        return self._obs(0), {}

    def step(self, action: Any) -> Stepped:
        self.t += 1
        self._break()
        over = self.t == self.plan.length
        cut = over and self.plan.truncates
        return self._obs(action), 1.0 + self.episode + self.t / 100, over and not cut, cut, {}

    def close(self) -> None:
        self.plan.closed += 1

    def _break(self) -> None:
        if (self.episode, self.t) in self.plan.failing:
            self.plan.broken.append(self.episode)
            raise LookupError(f"episode {self.episode} broke")

    def _obs(self, action: Any) -> npt.NDArray[np.float32]:
        return np.array([self.episode, self.t, action], dtype=np.float32)


class Fragile(gym.Wrapper[Any, Any, Any, Any]):
    """Breaks at random steps, drawn from the environment's own generator; `p` is a step's chance.

    Its code raises an error, or ends its process (`killed`).
    """

    def __init__(self, env_id: str = "CartPole-v1", p: float = 0.02, killed: bool = False) -> None:
        super().__init__(gym.make(env_id))
        self.p = p
        self.killed = killed

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self.unwrapped.np_random.random() < self.p:
            if self.killed:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ArithmeticError("a fuse blew")
        return super().step(action)


class BreaksWhen(gym.Env[Any, Any]):
    """Any spaces; breaks in steps that hang on the last bit of all that was drawn and done in its episode of 7 steps.

    Args:
        observation: To observe.
        action: To act.
        share: Of the steps, those that break.
        fault: `raise`, or a number to tell as the reward.
    """

    def __init__(
        self,
        observation: spaces.Space[Any],
        action: spaces.Space[Any],
        share: float = 0.3,
        fault: float | str = "raise",
    ) -> None:
        self.observation_space = observation
        self.action_space = action
        self.share = share
        self.fault = fault
        self.sum = 0.0
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.sum, self.t = 0.0, 0
        return self._drawn(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        self.sum += self.np_random.random() + _size_of(action)
        reward = 0.0
        if self.sum * 997 % 1 < self.share:
            if self.fault == "raise":
                raise OverflowError(f"the sum is {self.sum!r}")
            reward = float(self.fault)
        if isinstance(action, np.ndarray):
            action[...] = 0  # careless: it is the caller's
        return self._drawn(), reward, False, self.t == 7, {}

    def _drawn(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()


def _size_of(action: Any) -> float:
    """The sum of the magnitudes of all its entries, whatever it is made of."""
    if isinstance(action, dict | tuple):
        return sum(map(_size_of, action.values() if isinstance(action, dict) else action))
    return float(np.abs(np.asarray(action, dtype=np.float64)).sum())


def episodes_in(
    observations: Iterable[Any], keep: Callable[[int], bool] = lambda episode: True
) -> list[tuple[int, int]]:
    """(episode, step) of `Planned` observations, sorted."""
    found = [(int(row[0]), int(row[1])) for row in observations]
    return sorted(item for item in found if keep(item[0]))
