"""What a session does when: cadences, averages, the best evaluation."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import steadyrl as srl
from steadyrl.training.evaluation import Evaluation
from steadyrl.training.events import CheckpointSaved, EvaluationEnded, Event, EventStream, MetricsLogged, Progress
from steadyrl.training.extras import NEVER, Every, Extras, StopAt
from steadyrl.training.loops import Loop
from steadyrl.training.rows import mean_of
from steadyrl.training.session import Session
from steadyrl.training.signals import StopFlag
from support.training_envs import Fast


@given(st.integers(1, 50), st.lists(st.integers(0, 30), max_size=40))
def test_every_is_due_once_a_multiple_whatever_the_strides(steps: int, strides: list[int]) -> None:
    every, now, due = Every(steps), 0, 0
    for stride in strides:
        due += every.passed(now, now + stride)
        assert every.passed(now, now + stride) == any(x % steps == 0 for x in range(now + 1, now + stride + 1))
        now += stride
    assert due <= now // steps


def test_never_is_never() -> None:
    assert not any(NEVER.passed(step, step + 100) for step in range(0, 1000, 100))


def test_means_are_over_the_rows_that_have_the_name() -> None:
    rows: list[dict[str, Any]] = [{"a": 1.0, "b": torch.tensor(4.0)}, {"a": torch.tensor(2.0)}, {}]
    assert mean_of(rows) == {"a": 1.5, "b": 4.0}
    assert mean_of([]) == {}
    assert np.isnan(mean_of([{"a": torch.tensor(torch.nan)}, {"a": 1.0}])["a"])


@dataclass
class Stage:
    """A session over a real loop with scripted evaluations."""

    scores: list[float]
    events: list[Event] = field(default_factory=list)
    saved: list[tuple[str, int]] = field(default_factory=list)
    stop: StopFlag = field(default_factory=StopFlag)
    log_interval: int = 1

    def __post_init__(self) -> None:
        interval = self.log_interval
        self.agent = srl.A2C(Fast, preset="none", num_envs=4, n_steps=5, net_arch=(8,), log_interval=interval)
        self.loop: Loop = self.agent.loop
        self.stream = EventStream()
        self.stream.add(self.events.append)

    def session(self, extras: Extras) -> Session:
        return Session(self.loop, self.stream, extras, self.stop)

    def evaluate(self, *watch: Any) -> Evaluation:
        score = self.scores.pop(0)
        return Evaluation(np.array([score, score]), np.array([1, 1]))

    def save(self, kind: str) -> Path:
        self.saved.append((kind, self.loop.counters.timesteps))
        return Path(kind)


def test_only_a_better_evaluation_is_kept() -> None:
    stage = Stage([1.0, 3.0, 3.0, 2.0, 5.0])
    best = stage.session(Extras(stage.evaluate, stage.save, Every(20))).run(100, 100, None)
    assert best == 5.0
    assert [event.is_best for event in stage.events if isinstance(event, EvaluationEnded)] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert stage.saved == [("best", 20), ("best", 40), ("best", 100), ("final", 100)]


def test_the_best_of_earlier_calls_has_to_be_beaten() -> None:
    stage = Stage([1.0, 3.0])
    assert stage.session(Extras(stage.evaluate, stage.save, Every(20))).run(40, 40, 4.0) == 4.0
    assert stage.saved == [("final", 40)]


def test_the_end_is_evaluated_unless_it_just_was() -> None:
    stage = Stage([1.0, 2.0])
    session = stage.session(Extras(stage.evaluate, None, Every(60)))
    session.run(80, 80, None)
    assert [event.step for event in stage.events if isinstance(event, EvaluationEnded)] == [60, 80]
    assert session.final_evaluation is not None
    assert session.final_evaluation.mean == 2.0
    assert stage.scores == []


def test_a_stopped_session_saves_but_does_not_evaluate() -> None:
    stage = Stage([1.0])
    stage.stream.add(
        lambda event: setattr(stage.stop, "reason", "SIGTERM") if isinstance(event, MetricsLogged) else None
    )
    session = stage.session(Extras(stage.evaluate, stage.save, Every(1000)))
    session.run(100, 100, None)
    assert stage.loop.counters.timesteps == 20
    assert stage.saved == [("step", 20), ("final", 20)]
    assert session.final_evaluation is None


def test_rows_that_wait_for_the_interval_are_written_at_the_end() -> None:
    stage = Stage([], log_interval=3)
    stage.session(Extras()).run(100, 100, None)
    assert [event.updates for event in stage.events if isinstance(event, MetricsLogged)] == [3, 5]


def test_checkpoints_are_told() -> None:
    stage = Stage([])
    stage.session(Extras(None, stage.save, NEVER, Every(40))).run(100, 100, None)
    told = [(event.kind, event.step, event.path) for event in stage.events if isinstance(event, CheckpointSaved)]
    assert told == [
        ("step", 40, Path("step")),
        ("step", 80, Path("step")),
        ("step", 100, Path("step")),
        ("final", 100, Path("final")),
    ]


def test_progress_ends_where_the_session_ends() -> None:
    stage = Stage([])
    stage.session(Extras()).run(60, 100, None)
    last = [event for event in stage.events if isinstance(event, Progress)][-1]
    assert (last.step, last.total_timesteps, last.start_step) == (60, 100, 0)


@pytest.mark.parametrize(("target", "total", "updates"), [(50, 50, 3), (50, 100, 2), (40, 100, 2)])
def test_a_rollout_is_trained_short_only_at_the_declared_total(target: int, total: int, updates: int) -> None:
    stage = Stage([])
    stage.session(Extras()).run(target, total, None)
    assert stage.loop.counters.updates == updates


def test_progress_is_told_around_an_evaluation_so_that_its_time_is_not_the_trainings() -> None:
    stage = Stage([1.0, 2.0, 3.0])
    stage.session(Extras(stage.evaluate, None, Every(40))).run(100, 100, None)
    events = [event for event in stage.events if isinstance(event, Progress | EvaluationEnded)]
    evaluated = [i for i, event in enumerate(events) if isinstance(event, EvaluationEnded)]
    assert len(evaluated) == 3
    for i in evaluated:
        before, after, result = events[i - 2], events[i - 1], events[i]
        assert isinstance(before, Progress)
        assert isinstance(after, Progress)
        assert before.step == after.step == result.step
        cost = after.phases["eval"] - before.phases.get("eval", 0.0)
        assert 0.0 <= cost <= after.elapsed_s - before.elapsed_s


def test_phases_are_those_of_this_call() -> None:
    stage = Stage([])
    stage.session(Extras()).run(40, 100, None)
    stage.loop.phases.seconds["eval"] = 1e6
    stage.session(Extras()).run(80, 100, None)
    last = [event for event in stage.events if isinstance(event, Progress)][-1]
    assert sum(last.phases.values()) <= last.elapsed_s


def test_a_session_ends_at_the_step_it_is_told_to_as_by_a_callback() -> None:
    stage = Stage([1.0])
    session = stage.session(Extras(stage.evaluate, stage.save, Every(1000), stop_at=StopAt(48)))
    session.run(100, 100, None)
    assert (stage.loop.counters.timesteps, stage.stop.status) == (48, "stopped")
    assert stage.saved == [("step", 48), ("final", 48)]
