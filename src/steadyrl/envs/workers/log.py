"""The actions that the parent sent, kept for the case that a worker dies or hangs and cannot tell them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from steadyrl.envs.trace import MAX_ACTIONS

_CHUNK = 256  # vector steps


class ActionLog:
    """Actions [N, ...] of the vector steps of unfinished episodes, no more than `MAX_ACTIONS` of them.

    Attributes:
        count: Vector steps so far.

    Args:
        actions: An array like those to keep.
    """

    def __init__(self, actions: npt.NDArray[Any]) -> None:
        self.count = 0
        self._shape, self._dtype = actions.shape, actions.dtype
        self._chunks: list[npt.NDArray[Any]] = []
        self._first = 0  # the vector step before the first chunk

    def add(self, actions: npt.NDArray[Any], origins: Sequence[int]) -> None:
        """Keep a copy of these actions.

        Args:
            actions: [N, ...]
            origins: For each environment, the vector step before its episode's first.
        """
        row = self.count % _CHUNK
        if not row:
            self._forget(min(origins))
            self._chunks.append(np.empty((_CHUNK, *self._shape), self._dtype))
        self._chunks[-1][row] = actions
        self.count += 1

    def of(self, index: int, origin: int, total: int) -> tuple[list[Any], bool]:
        """The actions of one environment in the vector steps after `origin` up to `total`, and whether they are all."""
        kept = range(max(origin, self._first), min(total, self.count))
        rows = [self._chunks[(t - self._first) // _CHUNK][(t - self._first) % _CHUNK, index].copy() for t in kept]
        return rows, len(rows) == total - origin

    def _forget(self, before: int) -> None:
        while self._chunks and (self._first + _CHUNK <= before or self.count - self._first >= MAX_ACTIONS):
            self._chunks.pop(0)
            self._first += _CHUNK
