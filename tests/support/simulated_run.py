"""The events of an imagined run, on a clock that the test moves."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from steadyrl.training.events import (
    CheckpointSaved,
    EpisodeEnded,
    EvaluationEnded,
    Event,
    MetricsLogged,
    Notice,
    Progress,
    RunEnded,
    RunStarted,
)


class FakeClock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class SimulatedRun:
    """A run that learns to return 500 along a sigmoid.

    `seconds_per_step(fraction)` is the pace of training, `eval_s(fraction)` the cost of one evaluation.
    """

    env: str = "CartPole-v1"
    total: int = 100_000
    rollout: int = 1024
    eval_every: int = 10_000
    seconds_per_step: Callable[[float], float] = lambda fraction: 1e-4
    eval_s: Callable[[float], float] = lambda fraction: 0.5
    run_dir: Path | None = Path("runs/CartPole-v1/ppo/20260131T235959Z-seed3")
    clock: FakeClock = field(default_factory=FakeClock)

    def events(self) -> Iterator[Event]:
        """The events in order; the clock stands at the time of each."""
        draw = random.Random(0)
        start, step, train_s, eval_s, best = self.clock.now, 0, 0.0, 0.0, -math.inf
        yield RunStarted("ppo", self.env, 3, 0, self.total, self.run_dir)
        while step < self.total:
            taken = min(self.rollout, self.total - step)
            seconds = taken * self.seconds_per_step(step / self.total)
            for index in range(4):
                skill = 20 + 480 / (1 + math.exp(8 - 20 * step / self.total))
                reward = round(min(500.0, max(9.0, draw.gauss(skill, skill / 5))))
                self.clock.now += seconds / 4
                yield EpisodeEnded(step + index * taken // 4, index, float(reward), reward, reward < 500, False, None)
            step, train_s = step + taken, train_s + seconds
            phases = {"env": 0.4 * train_s, "act": 0.2 * train_s, "learn": 0.37 * train_s, "other": 0.03 * train_s}
            phases["eval"] = eval_s
            yield Progress(step, self.total, 0, self.clock.now - start, phases)
            metrics = {"train/approx_kl": 0.0123, "train/clip_fraction": 0.113, "train/entropy_loss": -0.553}
            metrics |= {"train/value_loss": 12.31, "train/explained_variance": 0.871, "train/learning_rate": 3e-4}
            yield MetricsLogged(step, step // self.rollout, self.clock.now - start, metrics)
            if step // self.eval_every > (step - taken) // self.eval_every:
                cost = self.eval_s(step / self.total)
                self.clock.now += cost
                eval_s += cost
                mean = min(500.0, skill * 1.1)
                is_best, best = mean > best, max(mean, best)
                yield EvaluationEnded(
                    step, mean, 8.0, (mean - 5.0, mean + 5.0), (mean,) * 10, (int(mean),) * 10, is_best, cost
                )
        yield RunEnded(step, "finished", self.clock.now - start, self.run_dir)


def warning(message: str) -> Notice:
    """A warning with this text."""
    return Notice("test", message, "warning")


STARTED = RunStarted("ppo", "CartPole-v1", 3, 0, 1000, Path("runs/x"))


LONG = "a_very_long_name_" * 20


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def awkward_events() -> list[Event]:
    """What no display may stumble over: NaN, infinities, long and hostile names, nothing known yet."""
    return [
        warning("line one\r\n\x1b[31mred\x1b[0m" + LONG),
        RunStarted(LONG, "env\n\x1b]0;title\x07 環境", 0, 0, 0, Path(LONG)),
        Progress(0, 0, 0, 0.0, {}),
        EpisodeEnded(1, 0, math.nan, 1, True, False, None),
        EpisodeEnded(2, 0, math.inf, 1, True, False, True),
        MetricsLogged(2, 1, 0.1, {f"train/{LONG}": math.nan, "train/\x1b[2J": -math.inf, "train/環境" * 9: 1e300}),
        Progress(2, 10, 0, math.nan, {LONG: math.nan, "env": math.inf}),
        Progress(2, 10, 5, 0.0, {"env": 0.0, "eval": 3.0}),
        EvaluationEnded(2, math.nan, math.nan, (math.nan, math.inf), (), (), True, math.nan),
        EvaluationEnded(2, 1e30, 0.0, (-1e30, 1e30), (1.0,), (1,), False, 0.0),
        EvaluationEnded(3, 1.0, 0.0, (1.0, 1.0), (1.0,), (1,), True, 0.0),
        CheckpointSaved(3, Path("x"), "best"),
        Notice("", ""),
        Progress(20, 10, 0, 1e12, {"env": 1.0}),
        RunEnded(20, "failed", 0.0, None, "because\r\n" + LONG),
    ]
