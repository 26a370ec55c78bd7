"""Single environments that a vector version is compared with."""

from __future__ import annotations

from typing import Any

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe.driver import Driver
from steadyrl.checker.probe.stage import Stage
from steadyrl.checker.probe.values import own


def many_starts(stage: Stage, count: int = 64) -> list[Any]:
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
