"""What is known of an environment that failed: enough to run it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Failure:
    """Attribute `failure` of the RunFailedError that an environment's failure raises.

    Attributes:
        env_index: Number of the environment in its vector.
        worker: Number of the process that it lived in; None in this process.
        phase: What it was doing.
        step: Of its episode, counted from 1; 0 before the first.
        seed: What reset was given; None where the environment drew on.
        options: What reset was given.
        random_state: Of the environment's own generator just before reset, and of wrappers that draw (`drawing.py`);
            None where a seed was given or there is none.
        actions: As the environment took them, in order, the one of the failing step included.
        whole: False where not all actions were kept.
        error: Type and text of what it raised.
        traceback: As Python printed it where it was raised.
    """

    env_index: int
    worker: int | None
    phase: Literal["make", "reset", "step", "close"]
    step: int
    seed: int | None
    options: dict[str, Any] | None
    random_state: dict[str, Any] | None
    actions: list[Any]
    whole: bool
    error: str
    traceback: str
