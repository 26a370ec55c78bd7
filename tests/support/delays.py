"""Environments that take a random time for a step, so that workers finish in another order each time. No torch."""

from __future__ import annotations

import random
import time
from typing import Any

import gymnasium as gym

from support.envs import Stepped

_CLOCK = random.SystemRandom()  # no seed reaches it
MOST_S = 0.002


class Delayed(gym.Wrapper[Any, Any, Any, Any]):
    """Sleeps for up to `MOST_S` before each step."""

    def step(self, action: Any) -> Stepped:
        time.sleep(_CLOCK.uniform(0.0, MOST_S))
        return self.env.step(action)


def cartpole() -> Delayed:
    """CartPole-v1, delayed."""
    return Delayed(gym.make("CartPole-v1"))


def pendulum() -> Delayed:
    """Pendulum-v1, delayed, with episodes that end before a short run does."""
    return Delayed(gym.make("Pendulum-v1", max_episode_steps=40))
