"""The environment that `steadyrl new-env` writes, and its test."""

from __future__ import annotations

from string import Template

_ENVIRONMENT = Template('''"""A cart is steered to a target: change what you need, and run the test each time."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class $name(gym.Env):
    """Steer to the target; leaving the track ends the episode.

    Observation: place, speed and target, each in [-1, 1]. Action: a push in [-1, 1]. Reward: 1 at the target, less the
    farther away, never below 0: were each step to cost something, leaving the track early would pay.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(self, render_mode: str | None = None, max_steps: int = 100) -> None:
        # Spaces are fixed here. Bounds of -1 and 1 suit every algorithm.
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.render_mode = render_mode
        self.max_steps = max_steps
        self.place = self.speed = self.target = 0.0
        self.steps = 0
        self.begun = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)  # seeds self.np_random; all chance comes from there, and nothing is seeded otherwise
        # Everything that an episode changes is set anew.
        self.place, self.target = self.np_random.uniform(-0.7, 0.7, 2)
        self.speed = 0.0
        self.steps = 0
        self.begun = True
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if not self.begun:
            raise gym.error.ResetNeeded("Call reset() before step().")
        push = float(np.clip(action[0], -1.0, 1.0))
        self.steps += 1
        self.speed = 0.9 * self.speed + 0.1 * push
        self.place += 0.2 * self.speed
        # terminated: the task is over, and what would come next is worth nothing. truncated: only the time is up.
        terminated = bool(abs(self.place) > 1.0)
        truncated = not terminated and self.steps >= self.max_steps
        self.place = float(np.clip(self.place, -1.0, 1.0))
        reward = 1.0 - abs(self.place - self.target) / 2.0
        return self._observation(), float(reward), terminated, truncated, {}

    def render(self) -> np.ndarray | None:
        if self.render_mode != "rgb_array":
            return None
        picture = np.full((40, 120, 3), 255, np.uint8)
        for at, color in ((self.target, (0, 150, 0)), (self.place, (200, 0, 0))):
            column = round((at + 1.0) / 2.0 * 115.0)
            picture[10:30, column : column + 5] = color
        return picture

    def _observation(self) -> np.ndarray:
        # A new array each time, of the dtype that the space declares.
        return np.array([self.place, self.speed, self.target], np.float32)
''')

_TEST = Template('''"""Run with `pytest test_$module.py`: it pays for what it should, and the checker passes it."""

import numpy as np
from $module import $name

import steadyrl as srl


def test_the_checker_finds_nothing() -> None:
    report = srl.check_env($name, strict=True)
    assert report.ok, "; ".join(f"{finding.kind}: {finding.message}" for finding in report.findings)


def test_pushing_to_the_target_pays_more_than_doing_nothing() -> None:
    def total(pushes: bool) -> float:
        env, rewards, over = $name(), 0.0, False
        place, speed, target = env.reset(seed=1)[0]
        while not over:
            push = np.clip(5.0 * (target - place) - 5.0 * speed, -1.0, 1.0) if pushes else 0.0
            (place, speed, target), reward, terminated, truncated, _ = env.step(np.array([push], np.float32))
            rewards, over = rewards + reward, terminated or truncated
        return rewards

    assert total(pushes=True) > total(pushes=False) + 1.0
''')


def class_name(module: str) -> str:
    """The class in a module of this name: `my_task` has `MyTask`."""
    words = [word for word in module.split("_") if word]
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name if name.isidentifier() else f"Env{name}"


def environment(module: str) -> str:
    """The text of the environment's file."""
    return _ENVIRONMENT.substitute(name=class_name(module))


def test(module: str) -> str:
    """The text of its test."""
    return _TEST.substitute(name=class_name(module), module=module)
