"""Records that are put together from more than one process or experiment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Died:
    """The process of an environment ended, or had to be ended.

    Attributes:
        status: Exit status, negative for a signal; None where it did not answer.
        experiment: What was going on.
        phase: `make`, `reset`, `step`, `render` or `close`.
        step: Of the episode.
        seed: Of the episode.
        waited: Seconds.
        stack: Where the code was, as far as known.
    """

    status: int | None
    experiment: str
    phase: str
    step: int
    seed: int | None
    waited: float = 0.0
    stack: str = ""


@dataclass
class Fits:
    """What each algorithm says to the spaces: name -> why it does not fit, empty where it does."""

    reasons: dict[str, str]


@dataclass
class Saving:
    """How the state of the environment can be saved: `native`, `replay` or `none`, and why not better."""

    kind: str
    reason: str


def crashed_in_graphics(died: Died) -> bool:
    """Whether a signal ended it while it drew: drivers and libraries do that where there is no display."""
    return "render" in (died.phase, died.experiment) and died.status is not None and died.status < 0


def evidence(died: Died) -> dict[str, Any]:
    """As evidence of a finding."""
    return {"step": died.step, "seed": died.seed, "phase": died.phase, "status": died.status, "stack": died.stack}
