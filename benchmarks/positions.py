"""CartPole without velocities: one observation does not tell where the pole is going."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

POSITIONS = [0, 2]  # of the cart, and the pole's angle


class PositionsOnly(gym.ObservationWrapper[npt.NDArray[np.float32], Any, npt.NDArray[np.float32]]):
    """CartPole-v1 that shows the cart's position and the pole's angle only."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(gym.make("CartPole-v1", render_mode=render_mode))
        space = self.env.observation_space
        assert isinstance(space, spaces.Box)
        self.observation_space = spaces.Box(space.low[POSITIONS], space.high[POSITIONS], dtype=np.float32)

    def observation(self, observation: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The positions."""
        return observation[POSITIONS]
