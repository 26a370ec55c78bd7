"""Returned objects that are kept as a caller might, to see whether they change afterwards."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from steadyrl.checker.probe.values import difference, own, unchanged

_HELD = 3  # steps for which an object is held beside its copy
_LONG = 60  # objects that are held to the end of the episode
_BIG = 1 << 20  # bytes of an observation, of which fewer are held


class Kept:
    """The observations and infos of one episode, each beside a copy that was made when it came."""

    def __init__(self) -> None:
        self._recent: deque[tuple[str, int, Any, Any]] = deque()
        self._first: list[tuple[str, int, Any, Any]] = []

    def add(self, step: int, obs: Any, info: Any) -> list[tuple[str, tuple[int, str]]]:
        """Take in what step `step` returned; tells what has changed of what came some steps before, and how."""
        found: list[tuple[str, tuple[int, str]]] = []
        while len(self._recent) >= 2 * _HELD:
            found += self._compared([self._recent.popleft()])
        few = isinstance(obs, np.ndarray) and obs.nbytes > _BIG
        for part, value in (("observation", obs), ("info", info)):
            item = (part, step, value, own(value))
            self._recent.append(item)
            if len(self._first) < (8 if few else _LONG):
                self._first.append(item)
        return found

    def changed(self) -> Iterator[tuple[str, tuple[int, str]]]:
        """What has changed by the end of the episode."""
        return self._compared([*self._first, *self._recent])

    @staticmethod
    def _compared(items: Iterable[tuple[str, int, Any, Any]]) -> Iterator[tuple[str, tuple[int, str]]]:
        for part, step, value, copy in items:
            if unchanged(copy, value):
                continue
            unlike = difference(copy, own(value))
            if unlike is not None:
                yield part, (step, str(unlike))
