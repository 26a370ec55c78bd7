"""How long the run will still take."""

from __future__ import annotations

import math
from bisect import bisect_right

from steadyrl.training.events import EvaluationEnded, Progress

MAX_POINTS = 512


class TimeLeft:
    """Estimates the seconds left from the pace of training and the cost of the evaluations to come.

    Training: the pace over the last half of the steps, which forgets a slow first update or an exploration phase
    without learning, and is long enough to average noise. Evaluation: the last one's cost for each one still to come,
    because evaluations arrive in lumps and a pace that includes them is wrong just before and just after each.
    """

    def __init__(self) -> None:
        self._last: Progress | None = None
        self._work_s: list[float] = [0.0]
        self._steps: list[int] = []
        self._evals = 0
        self._evaluated_at = 0
        self._eval_total_s = 0.0
        self._eval_last_s = 0.0
        self._evals_since = 0

    def evaluated(self, event: EvaluationEnded) -> None:
        """An evaluation ended; its cost is read from the next `Progress`."""
        self._evals += 1
        self._evals_since += 1
        self._evaluated_at = event.step

    def observe(self, event: Progress) -> None:
        """Take in where the run stands."""
        if not self._steps:
            self._steps.append(event.start_step)
        self._last = event
        eval_s = event.phases.get("eval", 0.0)
        if eval_s > self._eval_total_s:
            self._eval_last_s = (eval_s - self._eval_total_s) / max(self._evals_since, 1)
            self._eval_total_s, self._evals_since = eval_s, 0
        self._work_s.append(event.elapsed_s - eval_s)
        self._steps.append(event.step)
        if len(self._steps) > MAX_POINTS:
            # The newest point stays, whatever the parity.
            self._work_s, self._steps = self._work_s[::-2][::-1], self._steps[::-2][::-1]

    def seconds(self) -> float | None:
        """Seconds left at the last `Progress`, or None before there is a pace."""
        if self._last is None:
            return None
        steps_left = max(self._last.total_timesteps - self._last.step, 0)
        pace = self._pace(self._last.start_step)
        return None if pace is None else steps_left * pace + self._evaluations_left(self._last) * self._eval_last_s

    def _pace(self, start_step: int) -> float | None:
        """Seconds of training per step over the last half of the steps."""
        half = bisect_right(self._steps, (start_step + self._steps[-1]) // 2) - 1
        first = min(max(half, 0), len(self._steps) - 2)
        steps = self._steps[-1] - self._steps[first]
        return (self._work_s[-1] - self._work_s[first]) / steps if steps > 0 else None

    def _evaluations_left(self, last: Progress) -> int:
        """Evaluations to come: at the spacing so far, and one at the end."""
        gone = self._evaluated_at - last.start_step
        if self._evals == 0 or gone <= 0:
            return 0
        return math.ceil((last.total_timesteps - self._evaluated_at) * self._evals / gone)
