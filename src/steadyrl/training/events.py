"""The one typed event stream of a run: displays, loggers and `learn(callback=)` all listen to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A call of `learn` begins (or goes on) at `step` and runs to `total_timesteps`.

    `history` is what a run that is taken up from a checkpoint has behind it; None where nobody was stopped.
    """

    algo: str
    env: str
    seed: int
    step: int
    total_timesteps: int
    run_dir: Path | None
    config: Mapping[str, Any] = field(default_factory=dict)
    history: History | None = None


@dataclass(frozen=True, slots=True)
class History:
    """What a run's logs tell of it so far: how many episodes, the last of them, and all evaluations, oldest first."""

    episodes: int = 0
    recent: tuple[EpisodeEnded, ...] = ()
    evaluations: tuple[EvaluationEnded, ...] = ()


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user should know, said once."""

    code: str
    message: str
    level: str = "note"  # note, warning


@dataclass(frozen=True, slots=True)
class EpisodeEnded:
    """A training episode ended; `return_` is the raw sum of rewards."""

    step: int
    env_index: int
    return_: float
    length: int
    terminated: bool
    truncated: bool
    success: bool | None


@dataclass(frozen=True, slots=True)
class EpisodeBroken:
    """An environment failed and was started anew: what it had of its episode is dropped, and in no statistic.

    `return_` and `length` are what the episode came to; `restarts` are those of the whole training so far; `file` is
    the record of the failure in the run folder, or empty.
    """

    step: int
    env_index: int
    return_: float
    length: int
    reason: str
    restarts: int
    file: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """Emitted after each rollout: where the run stands.

    `phases` are seconds since the start of this call by phase: `env`, `act`, `learn`, `eval`, `other`.
    """

    step: int
    total_timesteps: int
    start_step: int
    elapsed_s: float
    phases: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class MetricsLogged:
    """One row of metrics under Stable-Baselines3's tags, averaged since the last row."""

    step: int
    updates: int
    time_s: float
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class EvaluationEnded:
    """An isolated evaluation: raw returns of the deterministic policy over fixed seeds."""

    step: int
    mean: float
    std: float
    ci95: tuple[float, float]
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    is_best: bool
    time_s: float
    success_rate: float | None = None  # None where no episode tells


@dataclass(frozen=True, slots=True)
class CheckpointSaved:
    """A checkpoint was written; `kind` is `step`, `best` or `final`."""

    step: int
    path: Path
    kind: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The call of `learn` is over; `status` as in the manifest: finished, stopped, interrupted, preempted, failed."""

    step: int
    status: str
    elapsed_s: float
    run_dir: Path | None
    message: str = ""


Event = (
    RunStarted
    | Notice
    | EpisodeEnded
    | EpisodeBroken
    | Progress
    | MetricsLogged
    | EvaluationEnded
    | CheckpointSaved
    | RunEnded
)
Listener = Callable[[Event], Any]


class EventStream:
    """Passes each event to every listener, in the order they were added."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def add(self, listener: Listener) -> None:
        """Listen from now on."""
        self._listeners.append(listener)

    def remove(self, listener: Listener) -> None:
        """Listen no more."""
        self._listeners.remove(listener)

    def emit(self, event: Event) -> None:
        """Tell everybody."""
        for listener in self._listeners:
            listener(event)
