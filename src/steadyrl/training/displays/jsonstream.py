"""One JSON object per event, for programs that watch a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TextIO

from steadyrl.training.events import (
    CheckpointSaved,
    EpisodeBroken,
    EpisodeEnded,
    EvaluationEnded,
    Event,
    MetricsLogged,
    Notice,
    Progress,
    RunEnded,
    RunStarted,
)
from steadyrl.training.jsonlines import episode_line, json_line

FLUSH_S = 0.25
NAMES: dict[type[Any], str] = {
    RunStarted: "run_started",
    Notice: "notice",
    EpisodeEnded: "episode_ended",
    EpisodeBroken: "episode_broken",
    Progress: "progress",
    MetricsLogged: "metrics_logged",
    EvaluationEnded: "evaluation_ended",
    CheckpointSaved: "checkpoint_saved",
    RunEnded: "run_ended",
}


def event_line(event: Event) -> str:
    """`event`, its name in snake case, and its fields; an episode's as in `episodes.jsonl`.

    Of a resumed run's history only how many episodes and evaluations there were: its folder has the rest.
    """
    if type(event) is EpisodeEnded:
        return '{"event": "episode_ended", ' + episode_line(event)[1:]
    row = {"event": NAMES[type(event)]} | {item.name: getattr(event, item.name) for item in fields(event)}
    if type(event) is RunStarted:
        row["history"] = event.history and {
            "episodes": event.history.episodes,
            "evaluations": len(event.history.evaluations),
        }
    return json_line(row)


class JsonDisplay:
    """Writes every event. Episodes may wait a quarter of a second, so that they are written in batches."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._waiting: list[Event] = []
        self._flushed_at = clock()

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        self._waiting.append(event)
        if type(event) is not EpisodeEnded or self._clock() - self._flushed_at >= FLUSH_S:
            self._flush()

    def close(self) -> None:
        """Write what still waits."""
        self._flush()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._flushed_at = self._clock()
        if waiting:
            self._stream.write("".join(map(event_line, waiting)))
            self._stream.flush()
