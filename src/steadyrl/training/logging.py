"""Writes the files of a run folder as the run goes."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from steadyrl.training.events import (
    EpisodeBroken,
    EpisodeEnded,
    EvaluationEnded,
    Event,
    MetricsLogged,
    Progress,
    RunEnded,
)
from steadyrl.training.jsonlines import AppendFile, broken_line, episode_line, json_line, read_jsonl
from steadyrl.training.tensorboard import TensorBoardFile

__all__ = ["RunWriter", "read_jsonl"]

FLUSH_S = 1.0
_FILES = ("metrics.jsonl", "episodes.jsonl", "evals.jsonl")


class RunWriter:
    """Listens to a run and writes `metrics.jsonl`, `episodes.jsonl`, `evals.jsonl` and a TensorBoard event file.

    Metrics and evaluations are written at once, episodes in batches: with the next other event, or after a second.
    Files are appended to, so a further `learn` goes on in them.

    Args:
        run_dir: The run folder; made if it does not exist.
        tensorboard: Whether to write a TensorBoard event file too. It is made with the first metrics.
        since: The step that a resumed run goes on from: TensorBoard forgets what earlier files tell of later ones.

    Raises:
        RunFailedError: A file cannot be written (disk full, no permission): the data of the run must not go missing
            unnoticed. Both at construction and when an event comes.
    """

    def __init__(self, run_dir: Path, *, tensorboard: bool = True, since: int | None = None) -> None:
        self._run_dir = Path(run_dir)
        self._with_tensorboard = tensorboard
        self._since = since
        self._tensorboard: TensorBoardFile | None = None
        self._episodes: list[EpisodeEnded] = []
        self._flushed_at = time.monotonic()
        self._files = self._open()

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        if type(event) is EpisodeEnded:
            self._episodes.append(event)
            if time.monotonic() - self._flushed_at >= FLUSH_S:
                self.flush()
        elif isinstance(event, EpisodeBroken):
            self.flush()
            self._append("episodes.jsonl", broken_line(event))
        elif isinstance(event, MetricsLogged):
            self._metrics(event)
        elif isinstance(event, EvaluationEnded):
            self._evaluation(event)
        elif isinstance(event, Progress | RunEnded):
            self.flush()

    def flush(self) -> None:
        """Write the episodes that wait."""
        episodes, self._episodes = self._episodes, []
        self._flushed_at = time.monotonic()
        if episodes:
            self._append("episodes.jsonl", "".join(map(episode_line, episodes)))

    def close(self) -> None:
        """Write what waits and close the files. A later event opens them again."""
        try:
            self.flush()
        finally:
            for file in self._files.values():
                file.close()
            self._files = {}
            if self._tensorboard is not None:
                self._tensorboard.close()
                self._tensorboard = None

    def _open(self) -> dict[str, AppendFile]:
        files: dict[str, AppendFile] = {}
        try:
            for name in _FILES:
                files[name] = AppendFile(self._run_dir / name)
        except BaseException:
            for file in files.values():
                file.close()
            raise
        return files

    def _append(self, name: str, lines: str) -> None:
        if not self._files:
            self._files = self._open()
        self._files[name].write(lines.encode())

    def _metrics(self, event: MetricsLogged) -> None:
        self.flush()
        row = {"step": event.step, "updates": event.updates, "time_s": event.time_s, **event.metrics}
        self._append("metrics.jsonl", json_line(row))
        self._scalars(event.step, dict(event.metrics))

    def _evaluation(self, event: EvaluationEnded) -> None:
        self.flush()
        row: dict[str, Any] = {
            "step": event.step,
            "mean": event.mean,
            "std": event.std,
            "ci95": event.ci95,
            "returns": event.returns,
            "lengths": event.lengths,
            "best": event.is_best,
            "time_s": event.time_s,
        }
        if event.success_rate is not None:
            row["success_rate"] = event.success_rate
        self._append("evals.jsonl", json_line(row))
        length = sum(event.lengths) / len(event.lengths) if event.lengths else math.nan
        tags = {"eval/mean_reward": event.mean, "eval/mean_ep_length": length, "eval/std_reward": event.std}
        if event.success_rate is not None:
            tags["eval/success_rate"] = event.success_rate
        self._scalars(event.step, tags)

    def _scalars(self, step: int, values: dict[str, float]) -> None:
        if not self._with_tensorboard:
            return
        if self._tensorboard is None:
            self._tensorboard = TensorBoardFile(self._run_dir, since=self._since)
        self._tensorboard.scalars(step, values)
