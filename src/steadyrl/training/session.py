"""One call of `learn`: drives the loop, evaluates and saves on schedule, tells the listeners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

from steadyrl.training.evaluation import Evaluation, Watch
from steadyrl.training.events import (
    CheckpointSaved,
    EpisodeEnded,
    EvaluationEnded,
    EventStream,
    MetricsLogged,
    Notice,
    Progress,
)
from steadyrl.training.loops import Loop
from steadyrl.training.signals import StopFlag
from steadyrl.training.stepping import passed

PROGRESS_S = 0.25  # seconds between two Progress events
LONG_EPISODE = 20_000  # steps of an evaluation episode that are worth a word


class _StoppedError(Exception):
    """The run should end while it is being evaluated."""


@dataclass(frozen=True)
class Every:
    """Due whenever the step count passes a multiple of `steps`; 0 is never."""

    steps: int

    def passed(self, before: int, now: int) -> bool:
        """Whether a multiple lies in (before, now]."""
        return passed(self.steps, before, now) > 0


NEVER = Every(0)


@dataclass
class Extras:
    """What a session does besides training.

    `evaluate` is called every `eval_every` environment steps and at the end; `save(kind)` returns the path of a new
    checkpoint.
    """

    evaluate: Callable[[Watch], Evaluation] | None = None
    save: Callable[[str], Path] | None = None
    eval_every: Every = NEVER
    save_every: Every = NEVER


class Session:
    """One call of `learn`.

    Args:
        loop: The training itself.
        events: Who listens.
        extras: Evaluation and checkpoints.
        stop: Ends the session at the next vector step when set.
    """

    def __init__(self, loop: Loop, events: EventStream, extras: Extras, stop: StopFlag) -> None:
        self._loop = loop
        self._events = events
        self._extras = extras
        self._stop = stop
        self._since_row: list[dict[str, Tensor | float]] = []
        self._start = perf_counter()
        self._start_step = loop.counters.timesteps
        self._next_progress = 0.0
        self._evaluated_at: tuple[int, int] | None = None
        self._evaluation: Evaluation | None = None
        self._said_long = False

    @property
    def elapsed(self) -> float:
        """Seconds since the session began."""
        return perf_counter() - self._start

    @property
    def final_evaluation(self) -> Evaluation | None:
        """The evaluation of the agent as it is now, if there was one."""
        return self._evaluation if self._evaluated_at == self._now() else None

    def _now(self) -> tuple[int, int]:
        return self._loop.counters.timesteps, self._loop.counters.updates

    def run(self, target: int, total: int, best: float | None) -> float | None:
        """Train until the step count is `target`; schedules run over `total`.

        Returns:
            The best mean return of an evaluation so far, `best` included.
        """
        loop, counters, extras = self._loop, self._loop.counters, self._extras
        self._best = best
        while counters.timesteps < target and not self._stop.reason:
            before = counters.timesteps
            for episode in loop.step(target - before, total):
                self._events.emit(
                    EpisodeEnded(
                        counters.timesteps,
                        episode.env_index,
                        episode.return_,
                        episode.length,
                        episode.terminated,
                        episode.truncated,
                        episode.success,
                    )
                )
            if loop.ready(total):
                self._since_row.append(loop.learn(total))
            if loop.row_due(before):
                self._log_row()
            if extras.eval_every.passed(before, counters.timesteps):
                self._evaluate()
            if extras.save is not None and extras.save_every.passed(before, counters.timesteps):
                self._save("step")
            self._progress(total)
        if self._since_row:
            self._log_row()
        self._progress(total, now=True)
        if not self._stop.reason:
            self._evaluate()
        if extras.save is not None:
            self._save("final")
        return self._best

    def _log_row(self) -> None:
        """Rollout, time and training metrics, the latter averaged since the last row."""
        counters, episodes = self._loop.counters, self._loop.episodes
        metrics: dict[str, float] = {}
        if episodes:
            metrics["rollout/ep_rew_mean"] = sum(e.return_ for e in episodes) / len(episodes)
            metrics["rollout/ep_len_mean"] = sum(e.length for e in episodes) / len(episodes)
            known = [e.success for e in episodes if e.success is not None]
            if known:
                metrics["rollout/success_rate"] = sum(known) / len(known)
        elapsed = self.elapsed
        metrics["time/fps"] = (counters.timesteps - self._start_step) / elapsed
        metrics["time/time_elapsed"] = elapsed
        metrics["train/n_updates"] = float(counters.updates)
        metrics |= mean_of(self._since_row)
        self._since_row.clear()
        notes, compiler = self._loop.policy.notes, self._loop.policy.compiler
        for what in [what for what, said in notes.items() if not said]:
            notes[what] = True
            self._events.emit(Notice("torch-path", f"PyTorch, not the native kernels, runs {what}."))
        said, compiler.notes[:] = [*compiler.notes], []
        for text, warning in said:
            self._events.emit(Notice("compile", text, "warning" if warning else "note"))
        self._events.emit(MetricsLogged(counters.timesteps, counters.updates, elapsed, metrics))

    def _evaluate(self) -> None:
        """Evaluate, unless the agent is still the one that was evaluated last; keep it if it is the best so far."""
        counters = self._loop.counters
        if self._extras.evaluate is None or self._evaluated_at == self._now():
            return
        try:
            with self._loop.phases("eval"):
                result = self._extras.evaluate(self._watch)
        except _StoppedError:
            return
        self._evaluated_at, self._evaluation = self._now(), result
        is_best = self._best is None or result.mean > self._best
        self._events.emit(
            EvaluationEnded(
                counters.timesteps,
                result.mean,
                result.std,
                result.ci95,
                tuple(map(float, result.returns)),
                tuple(map(int, result.lengths)),
                is_best,
                self.elapsed,
            )
        )
        if is_best:
            self._best = result.mean
            if self._extras.save is not None:
                self._save("best")

    def _watch(self, length: int) -> None:
        """Ends an evaluation when the run should end, and says when an episode of it seems to have no end."""
        if self._stop.reason:
            raise _StoppedError
        if length >= LONG_EPISODE and not self._said_long:
            self._said_long = True
            text = f"An evaluation episode has lasted {length} steps without an end; max_episode_steps would limit it."
            self._events.emit(Notice("long-episode", text, "warning"))

    def _save(self, kind: str) -> None:
        assert self._extras.save is not None
        with self._loop.phases("other"):
            path = self._extras.save(kind)
        self._events.emit(CheckpointSaved(self._loop.counters.timesteps, path, kind))

    def _progress(self, total: int, *, now: bool = False) -> None:
        elapsed = self.elapsed
        if now or elapsed >= self._next_progress:
            self._next_progress = elapsed + PROGRESS_S
            step = self._loop.counters.timesteps
            self._events.emit(Progress(step, total, self._start_step, elapsed, dict(self._loop.phases.seconds)))


def mean_of(rows: list[dict[str, Tensor | float]]) -> dict[str, float]:
    """Mean of each metric over the rows that have it; this is where metrics come to the host."""
    values: dict[str, list[Tensor | float]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, []).append(value)
    return {name: _mean(xs) for name, xs in values.items()}


def _mean(values: list[Tensor | float]) -> float:
    """Their mean in float64; values on an accelerator come in one transfer."""
    if isinstance(values[0], Tensor) and values[0].device.type != "cpu":
        return float(torch.stack([torch.as_tensor(x, dtype=torch.float64) for x in values]).mean())
    if len(values) == 1:  # the usual row of an on-policy run
        return float(values[0])
    return float(torch.tensor([float(x) for x in values], dtype=torch.float64).mean())
