"""One `key=value` line at a time, for logs, pipes and CI."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TextIO

from steadyrl.training.displays.text import number, shares
from steadyrl.training.displays.view import RunView
from steadyrl.training.events import EpisodeEnded, EvaluationEnded, Event, Notice, Progress, RunEnded, RunStarted

INTERVAL_S = 30.0
_BARE = re.compile(r"[\w.,:/%+@~-]+", re.ASCII)


def pair(key: str, value: object) -> str:
    """`key=value`; anything but a bare ASCII word is a JSON string, so no control character gets through."""
    text = str(value)
    return f"{key}={text if _BARE.fullmatch(text) else json.dumps(text)}"


class PlainDisplay:
    """Writes start, notices and end as they come, and between them a status line each 30 s at most.

    An evaluation is such a line too; where it would be the first one, it is written at once. Those that come faster are
    not written one by one: `evals` counts them, and each line carries the newest.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._view = RunView(clock)
        self._next_at = 0.0
        self._lines = 0

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        view = self._view
        view.observe(event)
        if isinstance(event, EpisodeEnded | Progress):
            if self._clock() >= self._next_at:
                self._status("progress")
        elif isinstance(event, EvaluationEnded):
            if self._lines == 0 or self._clock() >= self._next_at:
                self._status("eval")
        elif isinstance(event, Notice):
            self._write(pair("event", event.level), pair("code", event.code), pair("message", event.message))
        elif isinstance(event, RunStarted):
            self._started(event)
        elif isinstance(event, RunEnded):
            self._ended(event)

    def close(self) -> None:
        """Nothing is held open."""

    def _started(self, event: RunStarted) -> None:
        self._next_at = self._clock() + INTERVAL_S
        facts = {"algo": event.algo, "env": event.env, "seed": event.seed, "step": event.step}
        run = [] if event.run_dir is None else [pair("run", event.run_dir)]
        pairs = [pair(key, value) for key, value in facts.items()]
        self._write("event=start", *pairs, pair("total", event.total_timesteps), *run)

    def _status(self, kind: str) -> None:
        self._next_at = self._clock() + INTERVAL_S
        self._lines += 1
        view = self._view
        phases = [pair(f"{name}_pct", percent) for name, percent in shares(list(view.phases.items()))]
        left = view.left_s
        self._write(
            pair("event", kind),
            pair("step", view.step),
            pair("total", view.total),
            pair("done_pct", f"{100 * view.fraction:.1f}"),
            *self._pace(),
            *([] if left is None else [pair("left_s", round(left))]),
            *self._results(),
            *phases,
        )

    def _ended(self, event: RunEnded) -> None:
        message = [pair("message", event.message)] if event.message else []
        run = [] if event.run_dir is None else [pair("run", event.run_dir)]
        head = [pair("status", event.status), pair("step", event.step), pair("total", self._view.total)]
        self._write("event=end", *head, *self._pace(), *self._results(), *message, *run)

    def _pace(self) -> list[str]:
        rate = self._view.steps_per_s
        return [pair("elapsed_s", f"{self._view.elapsed_s:.1f}"), pair("steps_per_s", f"{rate:.0f}")]

    def _results(self) -> list[str]:
        """Training return of the last 100 episodes, and the newest evaluation."""
        view = self._view
        last, pairs = view.last_returns(), [pair("episodes", view.episodes)]
        if last.n:
            pairs += [pair("return", _plain(last.mean)), pair("return_std", _plain(last.std)), pair("return_n", last.n)]
        if (evaluation := view.evaluation) is not None:
            low, high = evaluation.ci95
            pairs += [pair("evals", view.evals), pair("eval_step", evaluation.step)]
            pairs += [pair("eval_mean", _plain(evaluation.mean)), pair("eval_ci95", f"{_plain(low)}..{_plain(high)}")]
            pairs += [pair("eval_n", len(evaluation.returns))]
            if evaluation.success_rate is not None:
                pairs += [pair("eval_success_rate", f"{evaluation.success_rate:.3g}")]
        if view.best is not None:
            pairs += [pair("best", _plain(view.best.mean)), pair("best_step", view.best.step)]
        return pairs

    def _write(self, *pairs: str) -> None:
        self._stream.write(" ".join(pairs) + "\n")
        self._stream.flush()


def _plain(value: float) -> str:
    """A number without separators, so that a program can read it back."""
    return number(value).replace(",", "")
