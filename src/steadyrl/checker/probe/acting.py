"""Which actions an environment bears, and whether they make a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe.driver import Broken, Driver, Fault
from steadyrl.checker.probe.effects import deaf_after, rewards_follow
from steadyrl.checker.probe.masks import mask_of, permitted
from steadyrl.checker.probe.play import Play, Split, play, split
from steadyrl.checker.probe.policies import Maker, Policy, always, at_random, corners
from steadyrl.checker.probe.stage import Stage
from steadyrl.checker.probe.values import difference, own

Push = Callable[[Any], Any]  # an action -> the action with one dimension at an end

_STARTS = 3  # states in which an action is tried at once
_MOST_DIMENSIONS = 32
_LONG = 200  # steps, until which actions may be without effect


@dataclass
class Acting:
    """What actions do.

    Attributes:
        fails: An action that fails in every start state -> what it raised.
        tried: How many actions were tried like that.
        works: At least one action does not fail at once.
        effect: Whether two policies ever led to something else; None where that could not be seen.
        late: They did in a long play only, as in a game whose opening takes no actions.
        policies: How many were compared.
        deaf: Dimensions of the action that never made a difference.
        obs_kept: Where a play went apart because the caller wrote into an observation that it had been given.
        kept: Where a play went apart because the caller wrote into an action that it had passed.
        rewards: Whether rewards or ends follow what is done; None where that could not be seen.
        deaf_after: Step after which actions make no difference any more.
    """

    fails: dict[str, Fault] = field(default_factory=dict)
    tried: int = 0
    works: bool = False
    effect: bool | None = None
    late: bool = False
    policies: int = 0
    deaf: list[str] = field(default_factory=list)
    obs_kept: Split | None = None
    kept: Split | None = None
    rewards: bool | None = None
    deaf_after: int | None = None


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
            _reaches(stage, driver, found)
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
    if found.fails and not found.works:
        _plainly(driver, found)


def _plainly(driver: Driver, found: Acting) -> None:
    """Where every action fails: whether Python's own integer, or a list, does not."""
    name, action = next(iter(corners(driver.env.action_space)))
    plain = action.tolist() if isinstance(action, np.ndarray | np.generic) else action
    faults = [_at_once(driver, plain, SEED + i) for i in range(_STARTS)]
    if type(plain) is not type(action) and None in faults:
        found.works, kind = True, type(action).__name__
        found.fails = {f"{name} as the space samples it ({kind})": found.fails[name]}


def _at_once(driver: Driver, action: Any, seed: int) -> Fault | bool | None:
    """What an action raises right after a reset; False where it is not valid there."""
    obs, info = driver.reset(seed=seed)
    space = driver.env.action_space
    if not permitted(space, mask_of(space, obs, info, driver.env), action):
        return False
    try:
        driver.step(own(action))
    except Broken as broken:
        return broken.fault
    return None


def _effect(stage: Stage, driver: Driver, found: Acting) -> None:
    """Whether any two policies lead to something else from the same start."""
    makers = _makers(driver)
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
        found.effect = found.late = _late_effect(stage, driver, makers)


def _late_effect(stage: Stage, driver: Driver, makers: list[Maker]) -> bool:
    """The same in the course of a longer play: a game may begin with a scene in which nothing can be done."""
    steps, cpu_s = max(_LONG, stage.plan.play_steps), 4 * stage.plan.play_s
    a, b = (play(driver, maker(SEED), SEED, steps, made=True, cpu_s=cpu_s) for maker in makers[1:3])
    return split(a, b) is not None


def _makers(driver: Driver) -> list[Maker]:
    space = driver.env.action_space
    extremes = [always(space, action) for _, action in corners(space)]
    return [at_random(space), at_random(space), *extremes[:2], *extremes[-1:]]


def _reaches(stage: Stage, driver: Driver, found: Acting) -> None:
    """Whether actions reach the reward, and whether they go on to make a difference."""
    playing, makers = partial(_one, stage, driver), _makers(driver)
    found.rewards = rewards_follow(playing, makers, 4 * stage.plan.seeds if not stage.plan.quick else 2)
    if not stage.plan.quick and not found.late:
        found.deaf_after = deaf_after(driver, playing, makers[1:])


def _one(stage: Stage, driver: Driver, policy: Policy, seed: int, steps: int = 60) -> Play:
    return play(driver, policy, seed, min(steps, stage.plan.play_steps), made=True, cpu_s=0.3)


def _dimensions(stage: Stage, driver: Driver, found: Acting) -> None:
    """Dimensions that can be pushed to either end without any difference."""
    if stage.plan.quick:
        return
    pushes = list(_pushes(driver.env.action_space))
    if not 1 < len(pushes) <= _MOST_DIMENSIONS:
        return
    for name, ends in pushes:
        if not any(_differs(stage, driver, ends, seed) for seed in range(SEED, SEED + 3)):
            found.deaf.append(name)


def _pushes(space: gym.Space[Any]) -> Iterator[tuple[str, list[Push]]]:
    """For each dimension of an action, or part of one, the ways to set it to its ends."""
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        low, high = _ends(space)
        for i in range(low.size):
            if low.ravel()[i] != high.ravel()[i]:
                yield str(i), [partial(_set_entry, i, end.ravel()[i]) for end in (low, high)]
    elif isinstance(space, spaces.Dict | spaces.Tuple):
        names: Any = space.spaces if isinstance(space, spaces.Dict) else range(len(space.spaces))
        for name in names:
            found = [action for _, action in corners(space[name])]
            if any(difference(found[0], other) is not None for other in found[1:]):  # else it can be one thing only
                yield repr(name), [partial(_set_part, name, action) for action in (found[0], found[-1], found[1])]


def _set_entry(i: int, value: Any, action: Any) -> Any:
    changed = np.array(action)
    changed.reshape(-1)[i] = value
    return changed


def _set_part(name: Any, value: Any, action: Any) -> Any:
    if isinstance(action, tuple):
        return (*action[:name], own(value), *action[name + 1 :])
    return {**action, name: own(value)}


def _ends(space: Any) -> list[Any]:
    return list(dict(corners(space)).values())[:2]


def _differs(stage: Stage, driver: Driver, ends: list[Push], seed: int) -> bool:
    plays = []
    for push in ends:
        sample = at_random(driver.env.action_space)(seed)

        def pushed(obs: Any, mask: Any, sample: Policy = sample, push: Push = push) -> Any:
            action = push(sample(obs, mask))
            return action if permitted(driver.env.action_space, mask, action) else sample(obs, mask)

        plays.append(_one(stage, driver, pushed, seed, steps=100))
    return any(split(plays[0], other) is not None for other in plays[1:])


def _kept(stage: Stage, driver: Driver, found: Acting) -> None:
    """Whether it makes a difference what the caller writes into observations and actions later."""
    space = driver.env.action_space
    sample, steps = at_random(space), min(60, stage.plan.play_steps)
    base, again = (_one(stage, driver, sample(SEED), SEED) for _ in range(2))
    if split(base, again) is not None:
        return

    def into_observation(number: int, action: Any, step: Any) -> None:
        _scribble(step.obs)

    def into_action(number: int, action: Any, step: Any) -> None:
        _scribble(action, fill)

    found.obs_kept = split(base, play(driver, sample(SEED), SEED, steps, made=True, cpu_s=0.3, after=into_observation))
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        fill = _ends(space)[0]
        found.kept = split(base, play(driver, sample(SEED), SEED, steps, made=True, cpu_s=0.3, after=into_action))


def _scribble(value: Any, fill: Any = 0) -> None:
    """Write into every array of a value but masks, which decide what is done next."""
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value[...] = fill
    elif isinstance(value, dict):
        for key, part in value.items():
            if key not in ("action_mask", "action_masks"):
                _scribble(part, fill)
    elif isinstance(value, tuple):
        for part in value:
            _scribble(part, fill)
