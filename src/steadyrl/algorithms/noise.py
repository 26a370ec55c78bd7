"""Noise on the actions of a deterministic policy, per environment and per dimension, from one stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steadyrl.configs import Schedule, value_at
from steadyrl.seeding import Stream

_THETA, _DT = 0.15, 1e-2  # pull and time step of the Ornstein-Uhlenbeck process (arXiv:1509.02971, section 7)


class ActionNoise:
    """Gaussian or Ornstein-Uhlenbeck noise in [-1, 1] space.

    Args:
        kind: none, normal or ornstein-uhlenbeck.
        std: Standard deviation (of the process's increments per unit of time), which may follow a schedule.
        stream: The owner of the randomness.
        shape: (N, D).
    """

    def __init__(self, kind: str, std: Schedule, stream: Stream, shape: tuple[int, int]) -> None:
        self._kind = kind
        self._std = std
        self._stream = stream
        self._level = np.zeros(shape, dtype=np.float32)

    def draw(self, progress: float) -> npt.NDArray[np.float32]:
        """Noise for the next step, [N, D]."""
        if self._kind == "none":
            return self._level
        std = np.float32(value_at(self._std, progress))
        fresh = self._stream.normal(self._level.shape)
        if self._kind == "normal":
            return std * fresh
        self._level = self._level * np.float32(1 - _THETA * _DT) + std * np.float32(_DT**0.5) * fresh
        return self._level

    def reset(self, done: npt.NDArray[np.bool_]) -> None:
        """Start the process anew where an episode ended, [N]."""
        if self._kind == "ornstein-uhlenbeck":
            self._level = np.where(done[:, None], np.float32(0), self._level)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly."""
        return {"stream": self._stream.state_dict(), "level": self._level.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self._stream.load_state_dict(state["stream"])
        self._level = state["level"]
