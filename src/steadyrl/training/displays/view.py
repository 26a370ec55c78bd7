"""What every renderer shows: the state of the run, put together from its events."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from steadyrl.training.displays.timeleft import TimeLeft
from steadyrl.training.events import (
    EpisodeEnded,
    EvaluationEnded,
    Event,
    History,
    MetricsLogged,
    Notice,
    Progress,
    RunEnded,
    RunStarted,
)

WINDOW = 100
PHASES = ("env", "act", "learn", "eval", "other")
RATE_WINDOW_S = 10.0
MAX_CURVE = 512


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and population standard deviation of the last `n` episode returns, and their mean length."""

    mean: float
    std: float
    length: float
    n: int


class RunView:
    """Follows one run. An `EpisodeEnded` costs two appends; everything else is worked out when it is shown.

    Args:
        clock: Seconds that only go forward, to let elapsed and remaining time tick between two `Progress` events.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.episodes = 0
        self.notice: Notice | None = None
        self.warnings = 0
        self.metrics: dict[str, float] = {}
        self.evaluation: EvaluationEnded | None = None
        self.best: EvaluationEnded | None = None
        self.evals = 0
        self.evaluations: list[tuple[int, float]] = []
        self.training: list[tuple[int, float]] = []
        self._recent: deque[EpisodeEnded] = deque(maxlen=WINDOW)
        self._begin(RunStarted(algo="", env="", seed=0, step=0, total_timesteps=0, run_dir=None))

    def _begin(self, event: RunStarted) -> None:
        """A further `learn` starts its clock anew and keeps the history; a resumed run brings its own."""
        self.started = event
        if event.history is not None:
            self._go_on(event.history)
        self.ended: RunEnded | None = None
        self.step = event.step
        self.total = event.total_timesteps
        self.phases: dict[str, float] = {}
        self._elapsed_s = 0.0
        self._paces: deque[tuple[float, int]] = deque([(0.0, event.step)])  # seconds without evaluations, and the step
        self._time_left = TimeLeft()
        self._seen_at = self._clock()

    def _go_on(self, history: History) -> None:
        self.episodes, self.evals = history.episodes, 0
        self._recent.clear()
        self._recent.extend(history.recent)
        self.evaluation = self.best = None
        self.evaluations.clear()
        for evaluation in history.evaluations:
            self._count(evaluation)

    def observe(self, event: Event) -> None:
        """Take in one event."""
        if type(event) is EpisodeEnded:
            self.episodes += 1
            self.step = event.step
            self._recent.append(event)
        elif isinstance(event, Progress):
            self._progress(event)
        elif isinstance(event, MetricsLogged):
            self.metrics.update(event.metrics)
        elif isinstance(event, EvaluationEnded):
            self._evaluated(event)
        elif isinstance(event, Notice):
            self._noticed(event)
        elif isinstance(event, RunStarted):
            self._begin(event)
        elif isinstance(event, RunEnded):
            self.ended = event
            self.step = event.step

    def _progress(self, event: Progress) -> None:
        self.step, self.total = event.step, event.total_timesteps
        self.phases = dict(event.phases)
        self._seen_at = self._clock()
        self._time_left.observe(event)
        self._elapsed_s, work_s = event.elapsed_s, event.elapsed_s - event.phases.get("eval", 0.0)
        self._paces.append((work_s, event.step))
        while len(self._paces) > 2 and work_s - self._paces[1][0] >= RATE_WINDOW_S:
            self._paces.popleft()
        if self._recent:
            self.training.append((event.step, self.last_returns().mean))
            if len(self.training) > MAX_CURVE:
                self.training = self.training[::-2][::-1]

    def _evaluated(self, event: EvaluationEnded) -> None:
        self.step = max(self.step, event.step)
        self._time_left.evaluated(event)
        self._count(event)

    def _count(self, event: EvaluationEnded) -> None:
        self.evaluation = event
        self.evals += 1
        self.evaluations.append((event.step, event.mean))
        if len(self.evaluations) > MAX_CURVE:
            self.evaluations = self.evaluations[::-2][::-1]
        if event.is_best:
            self.best = event

    def _noticed(self, event: Notice) -> None:
        is_warning = event.level == "warning"
        self.warnings += is_warning
        if is_warning or self.notice is None or self.notice.level != "warning":
            self.notice = event

    def last_returns(self) -> Spread:
        """The last episodes, at most 100; NaN when there are none."""
        n = len(self._recent)
        if n == 0:
            return Spread(math.nan, math.nan, math.nan, 0)
        returns = [episode.return_ for episode in self._recent]
        mean = sum(returns) / n
        variance = sum((value - mean) ** 2 for value in returns) / n if math.isfinite(mean) else math.nan
        return Spread(mean, math.sqrt(variance), sum(episode.length for episode in self._recent) / n, n)

    @property
    def fraction(self) -> float:
        """The part of the declared total that is done."""
        return min(self.step / self.total, 1.0) if self.total > 0 else 0.0

    @property
    def elapsed_s(self) -> float:
        """Seconds since this call of `learn` began."""
        return self.ended.elapsed_s if self.ended else self._elapsed_s + self._idle_s()

    @property
    def left_s(self) -> float | None:
        """Seconds left, or None while nobody can know."""
        seconds = None if self.ended else self._time_left.seconds()
        return None if seconds is None else max(seconds - self._idle_s(), 0.0)

    @property
    def steps_per_s(self) -> float:
        """Environment steps per second over about the last ten seconds of training, evaluations left out.

        Once the call has ended, over all its seconds.
        """
        first_s, first_step = (0.0, self.started.step) if self.ended else self._paces[0]
        last_s, last_step = (self.ended.elapsed_s, self.ended.step) if self.ended else self._paces[-1]
        return (last_step - first_step) / (last_s - first_s) if last_s > first_s else math.nan

    def _idle_s(self) -> float:
        return max(self._clock() - self._seen_at, 0.0)
