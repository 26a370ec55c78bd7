"""Schedules: values as functions of absolute progress, never of the call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steadyrl.errors import UserError


@dataclass(frozen=True, slots=True)
class LinearSchedule:
    """Goes from `start` to `end` in a straight line over the first `fraction` of the declared total, then stays.

    In TOML `{start = 1e-3, end = 0}`; as a flag `--learning-rate 1e-3 --learning-rate-end 0`.
    """

    start: float
    end: float
    fraction: float = 1.0

    def __post_init__(self) -> None:
        fraction: Any = self.fraction
        if not isinstance(fraction, int | float) or not 0.0 < fraction <= 1.0:
            raise UserError(
                f"The fraction of a schedule is {self.fraction!r}, but it must be above 0 and at most 1.",
                remedy="Give the part of the run over which the value changes, such as fraction=0.5.",
                code="bad-value",
            )

    def __call__(self, progress: float) -> float:
        """Value at `progress` = steps so far / declared total, in [0, 1]."""
        t = min(max(progress / self.fraction, 0.0), 1.0)
        return self.start + t * (self.end - self.start)


Schedule = float | LinearSchedule


def value_at(schedule: Schedule, progress: float) -> float:
    """Value of a schedule or of a plain number."""
    return schedule(progress) if isinstance(schedule, LinearSchedule) else schedule
