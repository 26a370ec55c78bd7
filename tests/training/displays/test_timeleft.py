from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from steadyrl.training.displays.timeleft import MAX_POINTS, TimeLeft
from steadyrl.training.displays.view import RunView
from steadyrl.training.events import (
    Progress,
)
from support.simulated_run import STARTED, FakeClock, SimulatedRun

PACES: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "steady, no evaluation cost": (lambda f: 1e-3, lambda f: 0.0),
    "costly evaluations": (lambda f: 1e-3, lambda f: 10.0),
    "evaluations cost more than training": (lambda f: 1e-3, lambda f: 30.0),
    "slow first updates": (lambda f: 2e-2 if f < 0.02 else 1e-3, lambda f: 2.0),
    "fast exploration before learning": (lambda f: 1e-4 if f < 0.03 else 4e-3, lambda f: 2.0),
    "noisy": (lambda f: 1e-3 * (1 + 0.5 * math.sin(700 * f)), lambda f: 2.0),
}


@pytest.mark.parametrize("name", PACES)
def test_time_left_is_within_20_percent_after_a_tenth(name: str) -> None:
    pace, cost = PACES[name]
    run = SimulatedRun(seconds_per_step=pace, eval_s=cost)
    view, seen = RunView(run.clock), []
    for event in run.events():
        view.observe(event)
        if isinstance(event, Progress) and event.step > 0.1 * run.total + run.rollout:
            seen.append((run.clock.now, view.left_s))
    end = run.clock.now
    total = end - 1000.0
    assert len(seen) > 80
    for now, left in seen:
        assert left is not None
        assert abs(left - (end - now)) <= 0.2 * (end - now) + 0.01 * total, f"at {(now - 1000) / total:.0%}"


def test_time_left_ticks_between_two_rollouts_and_is_unknown_before_the_first() -> None:
    clock = FakeClock()
    view = RunView(clock)
    view.observe(STARTED)
    assert view.left_s is None
    clock.now += 10
    view.observe(Progress(100, 1000, 0, 10.0, {}))
    assert view.left_s == pytest.approx(90)
    clock.now += 5
    assert view.left_s == pytest.approx(85)
    assert view.elapsed_s == pytest.approx(15)
    clock.now += 500
    assert view.left_s == 0


def test_time_left_of_a_continued_run_counts_its_own_steps() -> None:
    left = TimeLeft()
    left.observe(Progress(5100, 6000, 5000, 10.0, {}))
    assert left.seconds() == pytest.approx(90)


def test_time_left_keeps_a_bounded_history() -> None:
    left = TimeLeft()
    for step in range(1, 20_000):
        left.observe(Progress(step, 100_000, 0, step * 0.01, {}))
    assert len(left._steps) == len(left._work_s) <= MAX_POINTS
    assert left.seconds() == pytest.approx(800.01)
