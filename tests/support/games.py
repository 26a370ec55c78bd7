"""A stand-in for ale-py's environment with a known answer for every frame, and the way to ask for the real one."""

from __future__ import annotations

import importlib.util
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest
from gymnasium import spaces

from support.envs import Reset, Stepped

needs_ale = pytest.mark.skipif(
    importlib.util.find_spec("ale_py") is None or importlib.util.find_spec("cv2") is None,
    reason="ale-py or OpenCV is not installed",
)
MEANINGS = ("NOOP", "FIRE", "RIGHT", "LEFT")
SHAPE = (6, 5)


class Emulator:
    """What the library asks of ale-py's emulator."""

    def __init__(self) -> None:
        self.frame = 0
        self.action = 0
        self.left = 3

    def lives(self) -> int:
        return self.left

    def getScreenDims(self) -> tuple[int, int]:  # noqa: N802 (ale-py's names)
        return SHAPE

    def getScreenGrayscale(self, screen: npt.NDArray[np.uint8]) -> None:  # noqa: N802
        screen[...] = screen_of(self.frame, self.action)

    def getScreenRGB(self, screen: npt.NDArray[np.uint8]) -> None:  # noqa: N802
        screen[...] = screen_of(self.frame, self.action)[..., None] // np.array([1, 2, 3], dtype=np.uint8)


class Game(gym.Env[Any, Any]):
    """A game of `length` frames; after the frames of `deaths` a life is gone. A frame pays `pay_of(frame)`.

    A reset starts at a frame that is drawn, so that games differ.

    Args:
        length: Frames of a game.
        deaths: Frames after which a life is gone.
        drawn: Start at a frame that is drawn, below this.
        cut: The game is truncated at its end, as by a limit of frames.
    """

    def __init__(self, length: int = 40, deaths: tuple[int, ...] = (), drawn: int = 1, cut: bool = False) -> None:
        self.observation_space = spaces.Box(0, 255, (4,), np.uint8)
        self.action_space = spaces.Discrete(len(MEANINGS))
        self.ale = Emulator()
        self.length, self.deaths, self.drawn, self.cut = length, deaths, drawn, cut
        self._frameskip = 1
        self.taken: list[int] = []

    def get_action_meanings(self) -> list[str]:
        return list(MEANINGS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        self.ale.frame = int(self.np_random.integers(self.drawn))
        self.ale.action, self.ale.left = 0, 1 + len(self.deaths)
        self.taken.append(-1)
        return np.full(4, self.ale.frame, dtype=np.uint8), {}

    def step(self, action: Any) -> Stepped:
        assert not self.over, "a step after the end"
        self.ale.frame += 1
        self.ale.action = int(action)
        self.ale.left = 1 + sum(death > self.ale.frame for death in self.deaths)
        self.taken.append(int(action))
        ends = self.over
        obs = np.full(4, self.ale.frame % 256, dtype=np.uint8)
        return obs, pay_of(self.ale.frame), ends and not self.cut, ends and self.cut, {"lives": self.ale.left}

    @property
    def over(self) -> bool:
        return self.ale.frame >= self.length


class MaskedGame(Game):
    """A game that allows two actions in each frame: to do nothing, and one of the others in turn."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        obs, info = super().reset(seed=seed)
        return obs, info | self._allowed()

    def step(self, action: Any) -> Stepped:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, truncated, info | self._allowed()

    def _allowed(self) -> dict[str, Any]:
        mask = np.zeros(len(MEANINGS), dtype=np.bool_)
        mask[[0, 1 + self.ale.frame % 3]] = True
        return {"action_mask": mask}


def pay_of(frame: int) -> float:
    """Of both signs, and with a sum whose sign clips to something else."""
    return float(frame % 7) - 2.0


def screen_of(frame: int, action: int) -> npt.NDArray[np.uint8]:
    """A picture that moves up and down, so that the maximum of two is neither of them."""
    base = np.arange(SHAPE[0] * SHAPE[1]).reshape(SHAPE)
    return ((base * 37 + frame * (91 if frame % 2 else 13) + action * 5) % 251).astype(np.uint8)
