"""One call of `learn`: drives the loop, evaluates and saves on schedule, tells the listeners."""

from __future__ import annotations

import math
from time import perf_counter
from typing import Any

import numpy as np
from torch import Tensor

from steadyrl.training.evaluation import Evaluation
from steadyrl.training.events import (
    CheckpointSaved,
    EpisodeBroken,
    EpisodeEnded,
    EvaluationEnded,
    EventStream,
    MetricsLogged,
    Notice,
    Progress,
)
from steadyrl.training.extras import Extras
from steadyrl.training.failing import restart_notice
from steadyrl.training.loops import Loop
from steadyrl.training.rows import mean_of, metrics_of
from steadyrl.training.signals import StopFlag

PROGRESS_S = 0.25  # seconds between two Progress events
LONG_EPISODE = 20_000  # steps of an evaluation episode that are worth a word


class _StoppedError(Exception):
    """The run should end while it is being evaluated."""


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
        loop.phases.seconds.clear()  # of an earlier call
        self._since_row: list[dict[str, Tensor | float]] = []
        self._start = perf_counter()
        self._best: float | None = None
        self._start_step = loop.counters.timesteps
        self._call_start, self._call_step = self._start, self._start_step  # of a resumed run, those of going on
        self._next_progress = 0.0
        self._evaluated_at: tuple[int, int] | None = None
        self._evaluation: Evaluation | None = None
        self._said_long = False
        self._saved_at: tuple[int, int] | None = None  # the last of the checkpoints of kind step
        self._owed = False  # an evaluation was cut off by a stop: whoever goes on makes it first

    @property
    def elapsed(self) -> float:
        """Seconds since the session began."""
        return perf_counter() - self._start

    @property
    def call_elapsed(self) -> float:
        """Seconds since this call began; `elapsed` counts those before a stop too."""
        return perf_counter() - self._call_start

    @property
    def fps(self) -> float:
        """Environment steps a second; of a resumed run all steps over all seconds."""
        return (self._loop.counters.timesteps - self._start_step) / max(self.elapsed, 1e-9)

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
        next_save = math.inf if extras.save_seconds is None else self.elapsed + extras.save_seconds
        if self._owed:
            self._evaluate(total)
        while counters.timesteps < target and not self._stop.reason:
            extras.check()
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
            if loop.lost:
                self._tell_lost()
            if loop.ready(total):
                self._since_row.append(loop.learn(total))
            if loop.row_due(before):
                self._log_row()
            self._stop_if_told(evaluated=False)
            if extras.eval_every.passed(before, counters.timesteps):
                self._evaluate(total)
            by_clock = self.elapsed >= next_save
            if extras.save is not None and (by_clock or extras.save_every.passed(before, counters.timesteps)):
                self._save("step")
                next_save = self.elapsed + (extras.save_seconds or math.inf)
            self._progress(total)
            self._stop_if_told(evaluated=True)
        if self._stop.reason and extras.save is not None:
            if counters.timesteps >= target:  # there is only the end left to make, whose row is no work of the stop
                self._log_row_if_any()
                self._owed = extras.evaluate is not None and self._evaluated_at != self._now()
            self._save("step")  # before the row that only the stop makes: a resumed run takes it back
        self._log_row_if_any()
        self._progress(total, now=True)
        if not self._stop.reason:
            self._evaluate(total)
        if extras.save is not None:
            last = not self._stop.reason and extras.save_every.steps > 0 and self._saved_at != self._now()
            if last or self._owed:
                self._save("step")
            self._save("final")
        return self._best

    def state_dict(self) -> dict[str, Any]:
        """What the rows, the evaluations and the clock go on from."""
        found = self._evaluation
        return {
            "since_row": [{name: float(value) for name, value in row.items()} for row in self._since_row],
            "elapsed": self.elapsed,
            "start_step": self._start_step,
            "best": self._best,
            "evaluated_at": None if self._evaluated_at is None else list(self._evaluated_at),
            "evaluation": None if found is None else _form_of(found),
            "said_long": self._said_long,
            "owed": self._owed,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave; to be called before `run`, which is then given the best mean again."""
        self._since_row = list(state["since_row"])
        self._start = perf_counter() - state["elapsed"]
        self._start_step = state["start_step"]
        self._best = state["best"]
        if state["evaluated_at"] is not None:
            timesteps, updates = state["evaluated_at"]
            self._evaluated_at = timesteps, updates
            found = state["evaluation"]
            successes = tuple(found.get("successes", ()))
            self._evaluation = Evaluation(np.array(found["returns"]), np.array(found["lengths"]), successes=successes)
        self._said_long, self._owed = state["said_long"], state["owed"]

    def _log_row_if_any(self) -> None:
        if self._since_row:
            self._log_row()

    def _log_row(self) -> None:
        """Rollout, time and training metrics, the latter averaged since the last row."""
        counters, elapsed = self._loop.counters, self.elapsed
        metrics = metrics_of(self._loop, self.fps, elapsed) | mean_of(self._since_row)
        self._since_row.clear()
        notes, compiler = self._loop.policy.notes, self._loop.policy.compiler
        for what in [what for what, said in notes.items() if not said]:
            notes[what] = True
            self._events.emit(Notice("torch-path", f"PyTorch, not the native kernels, runs {what}."))
        said, compiler.notes[:] = [*compiler.notes], []
        for text, warning in said:
            self._events.emit(Notice("compile", text, "warning" if warning else "note"))
        self._events.emit(MetricsLogged(counters.timesteps, counters.updates, elapsed, metrics))

    def _tell_lost(self) -> None:
        """Tell of the episodes that failing environments cut off; with a warning at the first, second, fourth, ..."""
        lost = self._loop.lost.copy()
        self._loop.lost.clear()
        counters, keep = self._loop.counters, self._extras.keep_failure
        for restarts, episode in enumerate(lost, counters.restarts - len(lost) + 1):
            file = (keep and keep(episode)) or ""
            self._events.emit(
                EpisodeBroken(
                    counters.timesteps,
                    episode.env_index,
                    episode.return_,
                    episode.length,
                    episode.reason,
                    restarts,
                    file,
                )
            )
            if restarts & (restarts - 1) == 0:
                self._events.emit(Notice("env-restart", restart_notice(episode, restarts, file), "warning"))

    def _evaluate(self, total: int) -> None:
        """Evaluate, unless the agent is still the one that was evaluated last; keep it if it is the best so far.

        Progress is told before and after it, so that nobody takes its time for the training's.
        """
        counters = self._loop.counters
        if self._extras.evaluate is None or self._evaluated_at == self._now():
            return
        self._progress(total, now=True)
        try:
            with self._loop.phases("eval"):
                result = self._extras.evaluate(self._watch)
        except _StoppedError:
            self._owed = True
            return
        self._evaluated_at, self._evaluation, self._owed = self._now(), result, False
        self._progress(total, now=True)
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
                result.success_rate,
            )
        )
        if is_best:
            self._best = result.mean
            if self._extras.save is not None:
                self._save("best")

    def _stop_if_told(self, *, evaluated: bool) -> None:
        told = self._extras.stop_at
        if told is not None and told.evaluated == evaluated and self._loop.counters.timesteps >= told.step:
            self._stop.set()

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
        self._loop.guard.read()
        with self._loop.phases("other"):
            path = self._extras.save(kind)
        if kind == "step":
            self._saved_at = self._now()
        self._events.emit(CheckpointSaved(self._loop.counters.timesteps, path, kind))

    def _progress(self, total: int, *, now: bool = False) -> None:
        elapsed = self.call_elapsed
        if now or elapsed >= self._next_progress:
            self._next_progress = elapsed + PROGRESS_S
            step = self._loop.counters.timesteps
            self._events.emit(Progress(step, total, self._call_step, elapsed, dict(self._loop.phases.seconds)))


def _form_of(evaluation: Evaluation) -> dict[str, Any]:
    told = {"successes": list(evaluation.successes)} if evaluation.successes else {}
    return {"returns": evaluation.returns, "lengths": evaluation.lengths, **told}
