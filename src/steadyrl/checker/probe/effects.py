"""What actions make a difference to: rewards, and the later course of an episode."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe.driver import Driver
from steadyrl.checker.probe.play import Play, Row, split
from steadyrl.checker.probe.policies import Maker, Policy, at_random

Playing = Callable[[Policy, int], Play]  # policy and seed -> what came of it

_BUDGET_S = 1.5  # CPU seconds for the comparison of rewards
_SWITCHES = (1, 12)  # steps after which policies begin to differ
_VARIED = 0.3  # of the rewards are not the usual one
_COMPARED = 40  # rows after that, of all episodes, which have to be alike before anything is said


def rewards_follow(playing: Playing, makers: Sequence[Maker], starts: int) -> bool | None:
    """Whether rewards or ends ever depend on what is done; None where that could not be seen.

    Rewards that are the same in all episodes, or nearly always, are no evidence: their goal may be one that nobody came
    to.
    """
    courses: list[Play] = []
    begun = time.process_time()
    for seed in range(SEED, SEED + starts):
        if time.process_time() - begun > _BUDGET_S:
            return None
        plays = [_of_rewards(playing(maker(seed + number), seed)) for number, maker in enumerate(makers)]
        if any(split(plays[0], other) is not None for other in plays[1:]):
            return True
        courses.append(plays[0])
        if len(courses) > 1 and all(split(courses[0], other) is None for other in courses[1:]):
            return None
    rewards = [row.told[0] for course in courses for row in course.rows if row.phase == "step"]
    if len(courses) < 2 or len(rewards) < _COMPARED:
        return None
    usual = max(Counter(rewards).values())
    return False if len(rewards) - usual > _VARIED * len(rewards) else None


def _of_rewards(told: Play) -> Play:
    """The rewards and flags of a play without its observations."""
    rows = [Row(row.phase, row.step, row.told[1:] if isinstance(row.told, tuple) else row.told) for row in told.rows]
    return Play(told.seed, rows, told.ends)


def deaf_after(driver: Driver, playing: Playing, makers: Sequence[Maker]) -> int | None:
    """The step after which it makes no difference any more what is done; None where it always does, or nobody knows."""
    for switch in _SWITCHES:
        if _is_deaf(driver, playing, makers, switch):
            return switch
    return None


def _is_deaf(driver: Driver, playing: Playing, makers: Sequence[Maker], switch: int) -> bool:
    compared = 0
    for seed in range(SEED, SEED + 3):
        first = at_random(driver.env.action_space)
        plays = [_episode(playing(_switched(first(seed), maker(seed), switch), seed)) for maker in makers]
        for other in plays[1:]:
            if split(plays[0], other) is not None or len(plays[0].rows) != len(other.rows):
                return False
            compared += max(0, len(other.rows) - switch - 1)
    return compared >= _COMPARED


def _switched(one: Policy, other: Policy, switch: int) -> Policy:
    """Acts as one policy and after so many steps as another."""
    taken = 0

    def act(obs: Any, mask: Any) -> Any:
        nonlocal taken
        taken += 1
        return one(obs, mask) if taken <= switch else other(obs, mask)

    return act


def _episode(told: Play) -> Play:
    """The first episode of a play."""
    rows = told.rows
    end = next((number for number, row in enumerate(rows) if row.phase == "reset()"), len(rows))
    return Play(told.seed, rows[:end])
