"""Two instances stepped in turn, and others made and closed meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe.driver import Broken
from steadyrl.checker.probe.play import Split, over, play, split
from steadyrl.checker.probe.policies import act, at_random
from steadyrl.checker.probe.stage import Stage
from steadyrl.checker.probe.values import own

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
        policy, cpu = at_random(a.env.action_space), stage.plan.play_s
        base, again = (play(a, policy, SEED, steps, cpu_s=cpu) for _ in range(2))
        found.alone = split(base, again)
        acting = at_random(b.env.action_space)(SEED + 1)
        b.reset(seed=SEED + 1)

        def disturb(number: int, action: Any, step: Any) -> None:
            copy = own(step.obs)
            if over(b.step(act(acting, b))):
                b.reset()
            if not found.kept and repr(own(step.obs)) != repr(copy):
                found.kept = f"the observation of step {number + 1} changed while another instance made a step"
            if number % _EVERY == _EVERY - 1:
                third = stage.drive()
                third.reset(seed=SEED + number)
                third.close()

        beside = play(a, policy, SEED, steps, cpu_s=3 * cpu, after=disturb)
        if found.alone is None:
            found.split = split(base, beside)
        b.close()
        if found.alone is None and found.split is None:
            found.split = split(base, play(a, policy, SEED, steps, cpu_s=cpu))
        a.close()
    except Broken:
        return found
    return found
