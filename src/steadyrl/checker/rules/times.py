"""Rules about the time that steps and resets take."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from steadyrl.checker.finding import Found, rule
from steadyrl.checker.probe.survey import Survey

_TIMES = 3  # what happens that often is no accident
_RARE = 20  # times the usual step
_SLOWING = 5  # times the first steps: what grows with the number of steps comes to nineteen in these tenths
_SLOW_S = 0.1  # a million such steps take more than a day
_NOTICED_S = 0.02  # no vector of environments waits gladly for longer
_IDLE_S = 0.008  # a step that waits that long waits on purpose; a million of them take hours
_SPREAD = "Spread the work over all steps, or do it in reset(): all environments of a vector wait for the slowest."


@rule(
    "SRL-PRC-010",
    "slow-step",
    "warning",
    "survey",
    "steps take long: some of them, later ones, or all",
    _SPREAD,
)
def slow_step(survey: Survey) -> Iterator[Found]:
    """Few steps take most of the time, or steps take more and more of it, or each takes a tenth of a second."""
    times = np.array(survey.times)
    if len(times) < 20:
        return
    usual = float(np.median(times))
    if usual > _SLOW_S:
        yield Found(
            f"A step takes {usual * 1e3:.0f} ms: a million of them take {usual * 1e6 / 3600:.0f} hours.",
            {"value": usual},
        )
        return
    tenth = len(times) // 10
    first, last = float(np.median(times[:tenth])), float(np.median(times[-tenth:]))
    if tenth >= 10 and last > _SLOWING * first and last > _NOTICED_S / 4:
        yield Found(
            f"Steps take longer and longer: {first * 1e3:.2g} ms at first, {last * 1e3:.2g} ms after {len(times)}.",
            {"value": last, "usual": first},
        )
        return
    slow = times[(times > _RARE * usual) & (times > _NOTICED_S)]
    if len(slow) >= _TIMES and slow.sum() > times.sum() / 2:
        yield Found(
            f"{len(slow)} of {len(times)} steps took {np.median(slow) * 1e3:.0f} ms, "
            f"{np.median(slow) / max(usual, 1e-9):,.0f} times the usual, and "
            f"{slow.sum() / times.sum():.0%} of the time.",
            {"value": float(np.median(slow)), "usual": usual, "count": len(slow)},
        )


@rule(
    "SRL-TIM-001",
    "slow-step",
    "warning",
    "survey",
    "every step waits",
    "Take the pause out where nobody looks on: keep to real time with render_mode='human' only.",
)
def waiting(survey: Survey) -> Iterator[Found]:
    """Steps sleep, or wait for another program, instead of computing."""
    if len(survey.idle) < 20:
        return
    usual, idle = float(np.median(survey.times)), float(np.median(survey.idle))
    if idle > _IDLE_S and usual <= _SLOW_S and idle > 0.8 * usual:
        yield Found(
            f"A step takes {usual * 1e3:.0f} ms, of which it waits for {idle * 1e3:.0f} ms.",
            {"value": idle, "usual": usual},
        )


@rule(
    "SRL-TIM-002",
    "slow-step",
    "warning",
    "survey",
    "steps take longer the longer an episode lasts",
    "Let a step cost the same whatever came before: keep sums instead of going through the history.",
)
def growing(survey: Survey) -> Iterator[Found]:
    """The last quarter of long episodes beside the first."""
    times, steps = np.array(survey.times), np.array(survey.time_steps)
    if len(times) < 40 or len(times) != len(steps):
        return
    longest = int(steps.max())
    early, late = times[steps <= longest / 4], times[steps > 3 * longest / 4]
    if longest < 20 or min(len(early), len(late)) < 20:
        return
    first, last = float(np.median(early)), float(np.median(late))
    if last > _SLOWING * first and last > _NOTICED_S / 4:
        yield Found(
            f"Steps take {first * 1e3:.2g} ms at the beginning of an episode, and {last * 1e3:.2g} ms after "
            f"{3 * longest // 4} steps.",
            {"value": last, "usual": first, "step": 3 * longest // 4},
        )


@rule(
    "SRL-TIM-003",
    "slow-reset",
    "note",
    "survey",
    "a reset takes as long as very many steps",
    "Build once, in __init__, what is the same in all episodes.",
)
def slow_reset(survey: Survey) -> Iterator[Found]:
    """Where episodes are short, resets take most of the time."""
    if len(survey.reset_times) < 5 or not survey.times:
        return
    usual, step = float(np.median(survey.reset_times)), float(np.median(survey.times))
    if usual > _SLOW_S and usual * len(survey.reset_times) > sum(survey.times):
        yield Found(
            f"A reset takes {usual * 1e3:.0f} ms, as long as {usual / max(step, 1e-9):,.0f} steps.",
            {"value": usual, "usual": step},
        )
