"""Episodes of the survey once more in a fresh instance, and the first play once more later, with another clock."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe import world
from steadyrl.checker.probe.driver import Broken, Driver, Step
from steadyrl.checker.probe.play import Play, Row, Split, play, row_of, split
from steadyrl.checker.probe.policies import at_random
from steadyrl.checker.probe.stage import Stage
from steadyrl.checker.probe.values import own

KEPT = 6  # episodes, the last of the survey
_STEPS = 300  # of one that are kept
_BYTES = 8 << 20  # of the observations of one


@dataclass
class Log:
    """What was done in an episode and what came of it.

    Attributes:
        seed: Of its reset.
        before: Episodes that the instance had played until then.
        actions: One a step.
        rows: The reset, and one a step.
    """

    seed: int
    before: int
    actions: list[Any] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    _bytes: int = 0

    def begin(self, obs: Any) -> None:
        """Take in what the reset returned."""
        self.rows.append(Row("reset(seed)", 0, (own(obs),)))

    def add(self, driver: Driver, action: Any, step: Step) -> None:
        """Take in a step; too long an episode is kept in its beginning only."""
        if len(self.actions) < _STEPS and self._bytes < _BYTES:
            self.actions.append(action)
            self.rows.append(row_of(driver, step))
            self._bytes += int(getattr(step.obs, "nbytes", 0))


@dataclass
class Again:
    """What did not come again.

    Attributes:
        leak: Where an episode of an instance that had played many before differs from that of fresh ones.
        before: How many those were.
        chance: Where fresh instances differ among themselves in it.
        later: Where the first play went apart when it was played again later, with the clock some days ahead.
    """

    leak: Split | None = None
    before: int = 0
    chance: Split | None = None
    later: Split | None = None


def again(stage: Stage, logs: Iterable[Log], first: Play | None) -> Again:
    """Play it all again."""
    found = Again()
    try:
        for log in logs:
            _repeat(stage, log, found)
            if found.leak is not None or found.chance is not None:
                return found
        if first is not None:
            with world.another_day():
                driver = stage.drive()
                later = play(driver, at_random(driver.env.action_space), SEED, len(first.rows), cpu_s=stage.plan.play_s)
                driver.close()
            found.later = split(first, later)
    except Broken:  # what it raised is found elsewhere
        return found
    return found


def _repeat(stage: Stage, log: Log, found: Again) -> None:
    told = Play(log.seed, log.rows)
    one = _replayed(stage, log)
    where = split(told, one)
    if where is None:
        return
    if split(one, _replayed(stage, log)) is None:
        found.leak, found.before = where, log.before
    else:
        found.chance = where


def _replayed(stage: Stage, log: Log) -> Play:
    """The actions of an episode in a fresh instance."""
    driver, result = stage.drive(), Play(log.seed)
    start = time.process_time()
    try:
        result.rows.append(Row("reset(seed)", 0, (own(driver.reset(seed=log.seed)[0]),)))
        for action in log.actions:
            if time.process_time() - start > stage.plan.play_s or driver.spent > 3 * stage.plan.play_s:
                break
            result.rows.append(row_of(driver, driver.step(own(action))))
    except Broken as broken:
        result.rows.append(Row("step", broken.fault.step, broken.fault.error))
    driver.close()
    return result
