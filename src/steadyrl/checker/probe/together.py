"""Two instances stepped in turn, and others made and closed meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe.driver import Broken, Driver
from steadyrl.checker.probe.play import Split, over, play, split
from steadyrl.checker.probe.policies import act, at_random
from steadyrl.checker.probe.stage import Stage
from steadyrl.checker.probe.values import difference, own

_EVERY = 10  # steps after which one more instance is made and closed


@dataclass
class Together:
    """What became of an instance beside others.

    Attributes:
        split: Where it left the course that it takes alone.
        alone: Where it left that already without others, so that nothing can be said.
        kept: An observation of it that another instance changed, in words.
        same: The maker returned one instance twice.
        spaces: How the spaces of two instances differ, in words.
    """

    split: Split | None = None
    alone: Split | None = None
    kept: str = ""
    same: bool = False
    spaces: str = ""


def together(stage: Stage) -> Together:
    """Play an instance alone, then beside another one."""
    found = Together()
    steps = min(stage.plan.play_steps, 150)
    try:
        a, b = stage.drive(), stage.drive()
        found.same = a.env.unwrapped is b.env.unwrapped
        for name in ("observation_space", "action_space"):
            one, other = getattr(a.env, name), getattr(b.env, name)
            if one != other:
                found.spaces = f"{name} is {one} in one and {other} in another"
        _beside(stage, found, a, b, steps)
        for driver in (a, b):
            driver.close()
    except Broken:
        return found
    return found


def _beside(stage: Stage, found: Together, a: Driver, b: Driver, steps: int) -> None:
    policy, cpu = at_random(a.env.action_space), stage.plan.play_s
    base = play(a, policy, SEED, steps, cpu_s=cpu)
    fresh = stage.drive()
    if split(base, play(fresh, policy, SEED, steps, cpu_s=cpu)) is None:
        fresh.close()
        fresh = stage.drive()  # new instances agree, so one more is compared, which no earlier episode can show in
    else:
        fresh, base = a, play(a, policy, SEED, steps, cpu_s=cpu)
        found.alone = split(base, play(a, policy, SEED, steps, cpu_s=cpu))
    disturbance = _Disturbance(stage, found, b)
    beside = play(fresh, policy, SEED, steps, cpu_s=3 * cpu, after=disturbance)
    if found.alone is None:
        found.split = split(base, beside)
    if fresh is not a:
        fresh.close()


class _Disturbance:
    """What goes on between two steps: another instance makes one, and now and then one is made and closed."""

    def __init__(self, stage: Stage, found: Together, other: Driver) -> None:
        self._stage, self._found, self._other = stage, found, other
        self._policy = at_random(other.env.action_space)(SEED + 1)
        other.reset(seed=SEED + 1)

    def __call__(self, number: int, action: Any, step: Any) -> None:
        before, other = own(step.obs), self._other
        try:
            if over(other.step(act(self._policy, other))):
                other.reset()
        except Broken:  # found elsewhere, and no fault of the instance that is watched
            self._other = other = self._stage.drive()
            other.reset(seed=SEED + number)
        if not self._found.kept and difference(before, own(step.obs)) is not None:
            self._found.kept = f"the observation of step {number + 1} changed while another instance made a step"
        if number % _EVERY == _EVERY - 1:
            third = self._stage.drive()
            third.reset(seed=SEED + number)
            third.close()
