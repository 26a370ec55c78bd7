"""Which actions an environment bears, and whether they make a difference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe.driver import Broken, Driver, Fault
from steadyrl.checker.probe.play import Play, Split, play, split
from steadyrl.checker.probe.policies import Maker, Policy, always, at_random, corners, mask_of, usable
from steadyrl.checker.probe.stage import Stage
from steadyrl.checker.probe.values import own

_STARTS = 3  # states in which an action is tried at once
_MOST_DIMENSIONS = 32


@dataclass
class Acting:
    """What actions do.

    Attributes:
        fails: An action that fails in every start state -> what it raised.
        tried: How many actions were tried like that.
        works: At least one action does not fail at once.
        effect: Whether two policies ever led to something else; None where that could not be seen.
        policies: How many were compared.
        deaf: Dimensions of the action that never made a difference.
        kept: Where a play went apart because the caller wrote into an action that it had passed.
    """

    fails: dict[str, Fault] = field(default_factory=dict)
    tried: int = 0
    works: bool = False
    effect: bool | None = None
    policies: int = 0
    deaf: list[int] = field(default_factory=list)
    kept: Split | None = None


def acting(stage: Stage) -> Acting:
    """Try the extremes, then compare policies."""
    found = Acting()
    try:
        driver = stage.drive()
        _extremes(driver, found)
        _effect(stage, driver, found)
        if found.effect:
            _dimensions(stage, driver, found)
            _kept(stage, driver, found)
        driver.close()
    except Broken:
        return found
    return found


def _extremes(driver: Driver, found: Acting) -> None:
    for name, action in corners(driver.env.action_space):
        faults = [_at_once(driver, action, SEED + i) for i in range(_STARTS)]
        tried = [fault for fault in faults if fault is not False]
        if not tried:
            continue
        found.tried += 1
        failed = [fault for fault in tried if isinstance(fault, Fault)]
        if len(failed) == len(tried):
            found.fails[name] = failed[0]
        else:
            found.works = True


def _at_once(driver: Driver, action: Any, seed: int) -> Fault | bool | None:
    """What an action raises right after a reset; False where it is not valid there."""
    obs, info = driver.reset(seed=seed)
    space = driver.env.action_space
    flags = usable(space, mask_of(space, obs, info, driver.env.unwrapped))
    if flags is not None and not flags[int(action) - int(getattr(space, "start", 0))]:
        return False
    try:
        driver.step(own(action))
    except Broken as broken:
        return broken.fault
    return None


def _effect(stage: Stage, driver: Driver, found: Acting) -> None:
    """Whether any two policies lead to something else from the same start."""
    space = driver.env.action_space
    extremes = [always(space, action) for _, action in corners(space)]
    makers: list[Maker] = [at_random(space), at_random(space), *extremes[:2], *extremes[-1:]]
    found.policies = len(makers)
    compared = 0
    for seed in range(SEED, SEED + 4 * stage.plan.seeds):
        plays = [_one(stage, driver, maker(seed + number), seed) for number, maker in enumerate(makers)]
        good = [each for each in plays if not isinstance(each.rows[-1].told, str)]
        compared += len(good) > 1
        if any(split(good[0], other) is not None for other in good[1:]):
            found.effect = True
            return
    if compared:
        found.effect = False


def _one(stage: Stage, driver: Driver, policy: Policy, seed: int, steps: int = 60) -> Play:
    return play(driver, policy, seed, min(steps, stage.plan.play_steps), made=True, cpu_s=0.3)


def _sizes(space: gym.Space[Any]) -> int:
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        return int(np.prod(space.shape))
    return 0


def _dimensions(stage: Stage, driver: Driver, found: Acting) -> None:
    """Dimensions that can be pushed to either end without any difference."""
    space = driver.env.action_space
    size = _sizes(space)
    if not 1 < size <= _MOST_DIMENSIONS or stage.plan.quick:
        return
    ends = list(_ends(space))
    for i in range(size):
        if ends[0].ravel()[i] == ends[1].ravel()[i]:
            continue
        if not any(_differs(stage, driver, i, ends, seed) for seed in range(SEED, SEED + 3)):
            found.deaf.append(i)


def _ends(space: Any) -> Iterator[Any]:
    named = dict(corners(space))
    yield from list(named.values())[:2]


def _differs(stage: Stage, driver: Driver, i: int, ends: list[Any], seed: int) -> bool:
    plays = []
    for end in ends:
        sample = at_random(driver.env.action_space)(seed)

        def pushed(obs: Any, mask: Any, sample: Policy = sample, end: Any = end) -> Any:
            action = np.array(sample(obs, mask))
            action.reshape(-1)[i] = end.ravel()[i]
            return action

        plays.append(_one(stage, driver, pushed, seed, steps=100))
    return split(*plays) is not None


def _kept(stage: Stage, driver: Driver, found: Acting) -> None:
    """Whether an action that the caller overwrites later makes a difference."""
    space = driver.env.action_space
    if not isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        return
    sample = at_random(space)
    base, again = (_one(stage, driver, sample(SEED), SEED) for _ in range(2))
    if split(base, again) is not None:
        return
    fill = next(_ends(space))

    def scribble(number: int, action: Any, step: Any) -> None:
        if isinstance(action, np.ndarray) and action.flags.writeable:
            action[...] = fill

    steps = min(60, stage.plan.play_steps)
    found.kept = split(base, play(driver, sample(SEED), SEED, steps, made=True, cpu_s=0.3, after=scribble))
