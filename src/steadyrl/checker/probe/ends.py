"""How episodes end: what a step after the end does, and whether an episode without a limit ends at all."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe.driver import Broken, Driver
from steadyrl.checker.probe.play import over
from steadyrl.checker.probe.policies import Maker, act, always, at_random, corners, sticky
from steadyrl.checker.probe.stage import Stage

_TRIES = 4
_SHORT = 200  # steps of an episode by one of many policies
_LONG_S, _QUICK_S = 2.5, 0.3  # CPU seconds for the search of an end


@dataclass
class Ends:
    """How episodes end.

    Attributes:
        went_on: Steps after an end that the environment itself had declared, with both flags down: (step, seed).
        tried: How many such steps were tried.
        found: An episode ended.
        steps: Steps in which an end was looked for.
        longest: Steps of the longest episode among them.
        early: A step before the first reset was taken as any other.
        limit: Registered limit.
        broken: It raised something meanwhile.
    """

    went_on: list[tuple[int, int]] = field(default_factory=list)
    tried: int = 0
    found: bool = False
    steps: int = 0
    longest: int = 0
    early: bool = False
    limit: int | None = None
    broken: bool = False


def ends(stage: Stage, limit: int | None) -> Ends:
    """Step on after ends; where none comes, look for one."""
    result = Ends(limit=limit)
    try:
        driver = stage.drive()
        space = driver.env.action_space
        result.early = _early(stage)
        extremes = [always(space, action) for _, action in corners(space)][:8]
        makers: list[Maker] = [at_random(space), sticky(space), *extremes]
        start, limit_s = time.process_time(), _QUICK_S if stage.plan.quick else _LONG_S
        budget = max(stage.plan.long_steps, 1_000)
        number = 0
        while result.tried < _TRIES and result.steps < budget and time.process_time() - start < limit_s:
            first = number < len(makers)  # each way to act for a while, then few ways for as long as it takes
            maker = makers[number] if first else makers[number % 2]
            length = _SHORT if first else budget - result.steps
            _episode(driver, maker(SEED + number), SEED + number, length, result, until=start + limit_s)
            number += 1
        driver.close()
    except Broken:
        result.broken = True
    return result


def _early(stage: Stage) -> bool:
    """Whether a step before the first reset is taken as any other; Gymnasium's wrappers refuse it."""
    driver = stage.drive()
    try:
        driver.step(at_random(driver.env.action_space)(SEED)(None, None))
    except Broken:
        return False
    finally:
        driver.close()
    return True


def _episode(driver: Driver, policy: Any, seed: int, length: int, result: Ends, until: float) -> None:
    driver.reset(seed=seed)
    for _ in range(length):
        if time.process_time() > until:
            return
        step = driver.step(act(policy, driver))
        result.steps += 1
        result.longest = max(result.longest, driver.steps)
        if not over(step):
            continue
        result.found = True
        if any(map(bool, driver.tap.flags)):
            result.tried += 1
            at = driver.steps
            try:
                after = driver.step(act(policy, driver))
            except Broken:
                return
            if not over(after) and not any(map(bool, driver.tap.flags)):
                result.went_on.append((at, seed))
        return
