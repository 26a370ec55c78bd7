"""Single environments that a vector version is compared with."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe.driver import Driver
from steadyrl.checker.probe.features import Features
from steadyrl.checker.probe.stage import Stage
from steadyrl.checker.probe.values import difference, own
from steadyrl.checker.probe.vectors import Unlike


def unlike_start(stage: Stage, space: gym.Space[Any], rows: list[Any], starts: list[Any]) -> Unlike | None:
    """Other starts than single ones are a vector's own draws, unless they are those of other seeds, or no such.

    Args:
        stage: Makes single environments.
        space: Of their observations.
        rows: First observations of the vector.
        starts: Those of single environments with the same seeds.
    """
    for i, row in enumerate(rows):
        for j, start in enumerate(starts):
            if i != j and difference(row, start) is None and difference(row, starts[i]) is not None:
                return Unlike(0, i, f"it starts as the single environment does with seed {SEED + j}")
    features = Features(space)
    several = [features.row(own(start)) for start in _many_starts(stage)]
    known = np.stack([row for row in several if row is not None]) if features.names else np.zeros((0, 0))
    if len(known) < 10:
        return None
    low, high = known.min(0), known.max(0)
    width = high - low
    for i, row in enumerate(rows):
        told = features.row(row)
        outside = None if told is None else np.flatnonzero((told < low - width) | (told > high + width))
        if outside is not None and len(outside):
            k = int(outside[0])
            what = f"it starts with {told[k]:g}{f' at {features.names[k]}' if features.names[k] else ''}, where "
            return Unlike(0, i, f"{what}single ones start from {low[k]:g} to {high[k]:g}")
    return None


def _many_starts(stage: Stage, count: int = 64) -> list[Any]:
    """First observations with so many seeds."""
    driver = stage.drive()
    starts = [own(driver.reset(seed=SEED + i)[0]) for i in range(count)]
    driver.close()
    return starts


class Singles:
    """Single environments, one a row, with the seeds that a vector gives them."""

    def __init__(self, stage: Stage, count: int) -> None:
        self._drivers: list[Driver] = [stage.drive() for _ in range(count)]
        self.waiting = [False] * count

    def reset(self) -> list[Any]:
        """Their first observations."""
        return [own(driver.reset(seed=SEED + i)[0]) for i, driver in enumerate(self._drivers)]

    def begin(self, i: int) -> Any:
        """The first observation of a new episode of one."""
        self.waiting[i] = False
        return own(self._drivers[i].reset()[0])

    def step(self, i: int, action: Any) -> Any:
        """A step of one."""
        step = self._drivers[i].step(action)
        self.waiting[i] = bool(step.terminated) or bool(step.truncated)
        return step

    def close(self) -> None:
        """Close all."""
        for driver in self._drivers:
            driver.close()
