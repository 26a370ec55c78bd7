"""What displays count of a resumed run goes on from where it was."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import steadyrl as srl
from steadyrl.training.displays import make_display
from steadyrl.training.displays.jsonstream import event_line
from steadyrl.training.displays.view import RunView
from steadyrl.training.events import (
    EpisodeBroken,
    EpisodeEnded,
    EvaluationEnded,
    Event,
    History,
    Progress,
    RunStarted,
)
from steadyrl.training.history import history_of
from steadyrl.training.jsonlines import broken_line, episode_line
from steadyrl.training.logging import RunWriter
from steadyrl.training.run import Run
from support.simulated_run import STARTED, FakeClock

EPISODES = [EpisodeEnded(10 * i, i % 2, float(i), i + 1, i % 3 > 0, i % 3 == 0, None) for i in range(250)]
EVALS = [
    EvaluationEnded(100 * i, mean, 0.5, (mean - 1, mean + 1), (mean, mean), (3, 4), mean in (1.0, 5.0), 0.25)
    for i, mean in enumerate([1.0, 5.0, 2.0])
]


def written(run: Path) -> Path:
    writer = RunWriter(run, tensorboard=False)
    events: list[Event] = [*EPISODES, *EVALS]
    for event in events:
        writer(event)
    writer.close()
    return run


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    assert history_of(written(tmp_path / "run")) == History(250, tuple(EPISODES[-100:]), tuple(EVALS))


def test_a_run_without_logs_has_no_history(tmp_path: Path) -> None:
    assert history_of(tmp_path) == History()


def test_cut_off_episodes_do_not_count_and_odd_rows_are_left_out(tmp_path: Path) -> None:
    run = written(tmp_path / "run")
    with (run / "episodes.jsonl").open("a") as file:
        file.write(broken_line(EpisodeBroken(9, 0, 1.0, 2, '"broken"', 1)))
        file.write(episode_line(EpisodeEnded(2500, 0, math.inf, 7, True, False, True)))
        file.write('{"step": []}\n[]\n{\n')
    with (run / "evals.jsonl").open("a") as file:
        file.write('{"ci95": [1]}\n\n')
        file.write(json.dumps(json.loads((run / "evals.jsonl").read_text().splitlines()[0]) | {"mean": None}) + "\n")
    history = history_of(run)
    assert (history.episodes, len(history.recent), len(history.evaluations)) == (254, 97, 4)
    assert math.isnan(history.recent[-1].return_)
    assert history.recent[-1].success is True
    assert math.isnan(history.evaluations[-1].mean)


def test_a_view_counts_on() -> None:
    view = RunView(FakeClock())
    history = History(250, tuple(EPISODES[-100:]), tuple(EVALS))
    started = RunStarted("ppo", "x", 0, 2500, 5000, None, {}, history)
    for _ in range(2):  # one that watched the stopped run too counts nothing twice
        view.observe(started)
        assert (view.episodes, view.evals, view.evaluation, view.best) == (250, 3, EVALS[2], EVALS[1])
        assert (view.last_returns().mean, view.last_returns().n) == (199.5, 100)
        assert view.evaluations == [(0, 1.0), (100, 5.0), (200, 2.0)]
    view.observe(STARTED)
    assert view.episodes == 250
    view.observe(RunStarted("ppo", "x", 0, 0, 5000, None, {}, History()))
    assert (view.episodes, view.evals, view.evaluation, view.best, view.evaluations) == (0, 0, None, None, [])
    assert view.last_returns().n == 0


def test_what_is_written_for_people_and_programs() -> None:
    stream, clock = io.StringIO(), FakeClock()
    display = make_display("plain", stream, clock=clock)
    history = History(250, tuple(EPISODES[-100:]), tuple(EVALS))
    display(RunStarted("ppo", "x", 0, 2500, 5000, None, {}, history))
    clock.now += 30
    display(Progress(2600, 5000, 2500, 30.0, {}))
    line = stream.getvalue().splitlines()[1]
    for pair in ("episodes=250", "return=199.5", "evals=3", "eval_step=200", "best=5.00", "best_step=100"):
        assert pair in line.split()
    row = json.loads(event_line(RunStarted("ppo", "x", 0, 2500, 5000, None, {}, history)))
    assert row["history"] == {"episodes": 250, "evaluations": 3}
    assert json.loads(event_line(STARTED))["history"] is None


def stop_at(step: int) -> Callable[[Event], bool | None]:
    return lambda event: False if getattr(event, "step", 0) >= step and not isinstance(event, Progress) else None


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_view_of_the_second_half_ends_like_one_of_the_whole(algo: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"ppo": {"n_steps": 32}, "dqn": {"learning_starts": 64, "batch_size": 16}}[algo]

    def train(name: str, *listeners: Callable[[Event], bool | None]) -> Run:
        return srl.train(
            algo, "CartPole-v1", total_timesteps=1200, run_dir=tmp_path / name, seed=3, num_envs=2, preset="none",
            eval_freq=200, eval_episodes=2, checkpoint_freq=250, callback=[*listeners], **given,
        )  # fmt: skip

    whole, half, started = RunView(FakeClock()), RunView(FakeClock()), list[RunStarted]()
    train("whole", whole.observe)
    train("stopped", stop_at(700))
    srl.resume(
        tmp_path / "stopped",
        callback=[half.observe, lambda event: started.append(event) if isinstance(event, RunStarted) else None],
    )
    assert started[0].history is not None
    assert started[0].history.episodes > 5
    assert started[0].history.evaluations[-1].step == 600
    assert (half.episodes, half.evals, half.evaluations) == (whole.episodes, whole.evals, whole.evaluations)
    assert half.last_returns() == whole.last_returns()
    assert half.best is not None
    assert whole.best is not None
    assert (half.best.step, half.best.mean) == (whole.best.step, whole.best.mean)
