"""Whole checks: environments that refuse what masks forbid are sound, and each fault is told as what it is."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import steadyrl as srl


class Corridor(gym.Env[Any, Any]):
    """To the right end of a corridor; a step into a wall is refused. Episodes differ in length."""

    observation_space, action_space = spaces.Box(0.0, 1.0, (2,)), spaces.Discrete(3)

    def __init__(self, told: str = "info") -> None:
        self.told = told

    def allowed(self) -> Any:
        return np.array([self.x > 0, True, self.x < 5], np.int8)

    def _tell(self) -> tuple[Any, dict[str, Any]]:
        info = {"action_mask": self.allowed()} if self.told == "info" else {}
        return np.array([self.x / 5, self.t / 40], np.float32), info

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.x, self.t = int(self.np_random.integers(0, 4)), 0
        return self._tell()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.allowed()[action], f"illegal action {action} at {self.x}"
        self.x, self.t = self.x + int(action) - 1, self.t + 1
        obs, info = self._tell()
        return obs, float(self.x == 5) - 0.01, self.x == 5, self.t == 40, info


class Asked(Corridor):
    """The same, whose masks are asked for."""

    def __init__(self) -> None:
        super().__init__("asked")

    def action_masks(self) -> Any:
        return self.allowed()


@pytest.mark.parametrize("made", [Corridor, Asked])
def test_it_is_sound(made: type[gym.Env[Any, Any]]) -> None:
    report = srl.check_env(made)
    assert report.ok, [(finding.kind, finding.message) for finding in report.findings]


class Braked(gym.Env[Any, Any]):
    """A part of its action can only be 0."""

    observation_space = spaces.Box(-10.0, 10.0, (1,))
    action_space = spaces.Dict({"brake": spaces.Box(0.0, 0.0, (1,)), "push": spaces.Box(-1.0, 1.0, (1,))})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.x, self.t = self.np_random.uniform(-1, 1, 1).astype(np.float32), 0
        return self.x.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.x = np.clip(self.x + 0.1 * action["push"] - action["brake"], -10, 10).astype(np.float32)
        self.t += 1
        return self.x.copy(), -float(abs(self.x[0])), False, self.t == 30, {}


def test_a_part_that_can_be_one_thing_only_is_degenerate_and_not_ignored() -> None:
    kinds = {finding.kind for finding in srl.check_env(Braked).findings}
    assert "action-degenerate" in kinds
    assert "action-ignored" not in kinds


class Trial(Corridor):
    """Its third reset ends the process."""

    def __init__(self) -> None:
        super().__init__()
        self.periods = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.periods += 1
        if self.periods > 2:
            sys.exit("trial licence: two periods")
        return super().reset(seed=seed, options=options)


def test_an_exit_in_reset_is_told_once_as_what_it_is() -> None:
    kinds = [finding.kind for finding in srl.check_env(Trial).findings if finding.severity == "error"]
    assert kinds == ["exits-process"]
