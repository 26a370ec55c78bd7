"""What a call of `learn` does besides training, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from steadyrl.envs.types import BrokenEpisode
from steadyrl.training.evaluation import Evaluation, Watch
from steadyrl.training.stepping import passed


@dataclass(frozen=True)
class Every:
    """Due whenever the step count passes a multiple of `steps`; 0 is never."""

    steps: int

    def passed(self, before: int, now: int) -> bool:
        """Whether a multiple lies in (before, now]."""
        return passed(self.steps, before, now) > 0


NEVER = Every(0)


def _nothing() -> None:
    """Nothing is written in the background."""


@dataclass(frozen=True)
class StopAt:
    """A step at which a session ends: once the evaluation that is due there was made, or with it cut off."""

    step: int
    evaluated: bool = True


@dataclass
class Extras:
    """What a session does besides training.

    `evaluate` is called every `eval_every` environment steps and at the end; `save(kind)` returns the path of a new
    checkpoint, and is called every `save_every` steps, every `save_seconds` and at the end; `check` raises what went
    wrong with one that is written in the background; `keep_failure` writes down
    a failure that led to a restart, and returns where. At `stop_at` the call ends as by a callback.
    """

    evaluate: Callable[[Watch], Evaluation] | None = None
    save: Callable[[str], Path] | None = None
    eval_every: Every = NEVER
    save_every: Every = NEVER
    keep_failure: Callable[[BrokenEpisode], str | None] | None = None
    save_seconds: float | None = None
    check: Callable[[], None] = _nothing
    stop_at: StopAt | None = None
