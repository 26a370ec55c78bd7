"""A sequence of episodes as rows that can be compared: the same seed and actions have to give the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from steadyrl.checker.probe import world
from steadyrl.checker.probe.driver import Broken, Driver, Step
from steadyrl.checker.probe.policies import Maker, Policy, act
from steadyrl.checker.probe.values import Difference, difference, own

PIN = 4_711  # seed of the process's generators before each play, so that what draws from them repeats


@dataclass(frozen=True)
class Row:
    """What one call returned.

    Attributes:
        phase: `reset(seed)`, `reset()` or `step`.
        step: Of its episode.
        told: Observation, reward and flags, or the text of an error.
    """

    phase: str
    step: int
    told: Any


@dataclass
class Play:
    """A sequence of episodes.

    Attributes:
        seed: Of the first reset; the others have none.
        rows: In order.
        ends: Episodes that ended.
    """

    seed: int
    rows: list[Row] = field(default_factory=list)
    ends: int = 0


@dataclass(frozen=True)
class Split:
    """The first place where two plays go apart.

    Attributes:
        row: Its number; 0 is the first reset.
        phase: Of its row.
        step: Of its row.
        seed: Of the play.
        what: The difference.
    """

    row: int
    phase: str
    step: int
    seed: int
    what: Difference

    @property
    def evidence(self) -> dict[str, Any]:
        """As evidence of a finding."""
        return {"step": self.step, "seed": self.seed, "phase": self.phase, "value": str(self.what)}

    @property
    def part(self) -> str:
        """Which part of what was told differs."""
        names = {"[0]": "observation", "[1]": "reward", "[2]": "terminated", "[3]": "truncated"}
        return next((word for index, word in names.items() if self.what.path.startswith(index)), "result")

    def __str__(self) -> str:
        where = f"in step {self.step}" if self.phase == "step" else f"at {self.phase}"
        path = self.what.path.partition("]")[2] if self.part != "result" else ""
        return f"{self.part}{path} {where}: {self.what.one} and then {self.what.other}"


def play(
    driver: Driver,
    policy: Policy | Maker,
    seed: int,
    steps: int,
    *,
    made: bool = False,
    cpu_s: float = 5.0,
    pin: int | None = PIN,
    after: Callable[[int, Any, Any], None] | None = None,
) -> Play:
    """Reset with the seed and step through episodes, with unseeded resets in between.

    Args:
        driver: The instance.
        policy: What makes the policy from a seed, so that each play acts alike; or the policy itself.
        seed: Of the first reset.
        steps: In all.
        made: `policy` is a policy.
        cpu_s: Limit in CPU seconds; three times as many where the environment waits.
        pin: Seed of the process's own generators; None leaves them.
        after: Called after each step with its number, the action that was passed and what came.
    """
    acting: Any = policy if made else policy(seed)  # type: ignore[call-arg]
    result = Play(seed)
    if pin is not None:
        world.pin_generators(pin)
    start, spent = time.process_time(), driver.spent
    try:
        obs, _ = driver.reset(seed=seed)
        result.rows.append(Row("reset(seed)", 0, (own(obs),)))
        for number in range(steps):
            if time.process_time() - start > cpu_s or driver.spent - spent > 3 * cpu_s:
                break
            action = act(acting, driver)
            step = driver.step(action)
            result.rows.append(row_of(driver, step))
            if after is not None:
                after(number, action, step)
            if over(step):
                result.ends += 1
                obs, _ = driver.reset()
                result.rows.append(Row("reset()", 0, (own(obs),)))
    except Broken as broken:
        phase = "step" if broken.fault.phase == "step" else "reset()"
        result.rows.append(Row(phase, broken.fault.step, broken.fault.error))
    return result


def row_of(driver: Driver, step: Step) -> Row:
    """What a step told."""
    return Row("step", driver.steps, (own(step.obs), own(step.reward), own(step.terminated), own(step.truncated)))


def over(step: Step) -> bool:
    """Whether a step ended its episode; a flag that is no truth value does not."""
    try:
        return bool(step.terminated) or bool(step.truncated)
    except Exception:  # an array, or an object's own
        return False


def split(one: Play, other: Play) -> Split | None:
    """Where two plays go apart; None where the shorter one is the beginning of the longer one.

    Args:
        one: A play.
        other: Another.
    """
    for number, (a, b) in enumerate(zip(one.rows, other.rows, strict=False)):
        if a.phase != b.phase:
            return Split(number, b.phase, b.step, other.seed, Difference("", a.phase, b.phase))
        found = difference(a.told, b.told)
        if found is not None:
            return Split(number, b.phase, b.step, other.seed, found)
    return None
