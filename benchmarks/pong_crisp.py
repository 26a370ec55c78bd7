"""Pictures of Pong in which the ball is not lost: what is not background, at half the size."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import numpy.typing as npt

BACKGROUND = 87  # the field's grey
Pixels = npt.NDArray[np.uint8]


class Crisp(gym.ObservationWrapper[Pixels, int, Pixels]):
    """From grey pictures [84, 84] to [42, 42]: 255 where anything in a block of four is not background, else 0."""

    def __init__(self, env: gym.Env[Pixels, int]) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0, 255, (42, 42), np.uint8)

    def observation(self, observation: Pixels) -> Pixels:
        """One picture."""
        things = np.abs(observation.astype(np.int16) - BACKGROUND) > 8
        blocks = np.asarray(things.reshape(42, 2, 42, 2).any(axis=(1, 3)))
        return np.where(blocks, np.uint8(255), np.uint8(0))
