from __future__ import annotations

import io
import itertools
import re
from pathlib import Path

import pytest

from steadyrl.training.displays import make_display
from steadyrl.training.events import (
    EpisodeEnded,
    EvaluationEnded,
    Event,
    Notice,
    Progress,
    RunEnded,
    RunStarted,
)
from support.simulated_run import STARTED, FakeClock, SimulatedRun, awkward_events


def plain_lines(events: list[Event], clock: FakeClock) -> list[str]:
    stream = io.StringIO()
    display = make_display("plain", stream, clock=clock)
    for event in events:
        display(event)
    return stream.getvalue().splitlines()


def test_plain_lines_to_the_letter() -> None:
    clock, stream = FakeClock(), io.StringIO()
    display = make_display("plain", stream, clock=clock)
    display(Notice("preset", "Preset CartPole-v1."))
    display(STARTED)
    display(EpisodeEnded(90, 0, 10.0, 10, True, False, None))
    display(EpisodeEnded(95, 0, 20.0, 20, True, False, None))
    clock.now += 30
    display(Progress(250, 1000, 0, 30.0, {"env": 10.0, "act": 5.0, "learn": 15.0}))
    clock.now += 40
    display(EvaluationEnded(500, 40.5, 1.0, (39.0, 42.0), (40.0, 41.0), (40, 41), True, 1.0))
    display(RunEnded(1000, "finished", 80.0, Path("runs/x")))
    assert stream.getvalue().splitlines() == [
        'event=note code=preset message="Preset CartPole-v1."',
        "event=start algo=ppo env=CartPole-v1 seed=3 step=0 total=1000 run=runs/x",
        "event=progress step=250 total=1000 done_pct=25.0 elapsed_s=30.0 steps_per_s=8 left_s=90 episodes=2 "
        "return=15.00 return_std=5.00 return_n=2 env_pct=33 act_pct=17 learn_pct=50",
        "event=eval step=500 total=1000 done_pct=50.0 elapsed_s=70.0 steps_per_s=8 left_s=50 episodes=2 "
        "return=15.00 return_std=5.00 return_n=2 evals=1 eval_step=500 eval_mean=40.50 eval_ci95=39.00..42.00 eval_n=2 "
        "best=40.50 best_step=500 env_pct=33 act_pct=17 learn_pct=50",
        "event=end status=finished step=1000 total=1000 elapsed_s=80.0 steps_per_s=12 episodes=2 "
        "return=15.00 return_std=5.00 return_n=2 evals=1 eval_step=500 eval_mean=40.50 eval_ci95=39.00..42.00 eval_n=2 "
        "best=40.50 best_step=500 run=runs/x",
    ]


@pytest.mark.parametrize("eval_every", [100_000, 2000])
def test_plain_writes_at_most_a_line_each_30_s_between_start_and_end(eval_every: int) -> None:
    clock, stream = FakeClock(), io.StringIO()
    display = make_display("plain", stream, clock=clock)
    run = SimulatedRun(seconds_per_step=lambda f: 3e-3, eval_every=eval_every, clock=clock)
    times, written = [], 0
    for event in run.events():
        display(event)
        lines = stream.getvalue().count("\n")
        assert lines - written in (0, 1)
        if lines > written and not isinstance(event, RunStarted | RunEnded):
            times.append(clock.now)
        written = lines
    assert len(times) >= 8, "about 300 s and more"
    assert all(later - earlier >= 30 for earlier, later in itertools.pairwise(times))


def test_plain_shows_the_first_evaluation_of_a_short_run_at_once() -> None:
    run = SimulatedRun(total=20_000, eval_every=2_000)
    kinds = [line.split()[0] for line in plain_lines(list(run.events()), run.clock)]
    assert kinds == ["event=start", "event=eval", "event=end"]


def test_plain_has_only_printable_ascii_and_parses_back() -> None:
    for line in plain_lines(awkward_events(), FakeClock()):
        assert re.fullmatch(r"[ -~]+", line)
        assert re.fullmatch(r'(\w+=("(\\.|[^"\\])*"|[^ "=]+)( |$))+', line)


def test_what_the_first_line_says_at_the_first_evaluation_is_near_the_truth() -> None:
    """A short first `Progress` says little, and the evaluation itself took longer than the training before it."""
    clock, stream = FakeClock(), io.StringIO()
    display = make_display("plain", stream, clock=clock)
    display(STARTED)
    clock.now += 0.5
    display(Progress(4, 1000, 0, 0.5, {"env": 0.1}))  # environments were reset, libraries loaded
    clock.now += 2.0
    display(Progress(100, 1000, 0, 2.5, {"env": 1.0}))
    clock.now += 8.0
    display(Progress(100, 1000, 0, 10.5, {"env": 1.0, "eval": 8.0}))
    display(EvaluationEnded(100, 1.0, 0.0, (1.0, 1.0), (1.0,), (1,), True, 8.0))
    line = next(line for line in stream.getvalue().splitlines() if line.startswith("event=eval"))
    found = dict(part.split("=") for part in line.split() if part.startswith(("left_s", "steps_per_s")))
    # 900 steps at about 48 a second, and nine evaluations of 8 s: 91 s. 40 steps a second over all of the training.
    assert abs(float(found["left_s"]) - 91) <= 2
    assert float(found["steps_per_s"]) == 40
