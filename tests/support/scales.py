"""Environments whose observations differ in scale by a million (case 12), with discrete and continuous actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from support.envs import Stepped
from support.training_envs import Scales


class ScalesBox(Scales):
    """As `Scales`, with a number as its action: its sign says whether x + y > 0."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)  # type: ignore[assignment]

    def step(self, action: Any) -> Stepped:
        return super().step(np.int64(float(action[0]) > 0))


def scales_for(algo: str) -> type[Scales]:
    """The one that an algorithm can act in."""
    return ScalesBox if algo in ("ddpg", "td3", "sac") else Scales
