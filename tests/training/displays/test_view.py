from __future__ import annotations

import pytest

from steadyrl.training.displays.view import RunView
from steadyrl.training.events import (
    EpisodeEnded,
    Notice,
    Progress,
    RunEnded,
)
from support.simulated_run import STARTED, FakeClock, warning


def test_the_rate_is_recent_while_running_and_overall_at_the_end() -> None:
    clock = FakeClock()
    view = RunView(clock)
    view.observe(STARTED)
    view.observe(Progress(1000, 9000, 0, 100.0, {}))
    for second in range(1, 21):
        view.observe(Progress(1000 + 100 * second, 9000, 0, 100.0 + second, {}))
    assert view.steps_per_s == pytest.approx(100)
    view.observe(RunEnded(3000, "stopped", 120.0, None))
    assert view.steps_per_s == pytest.approx(25)
    assert view.left_s is None


def test_the_last_hundred_returns_and_their_spread() -> None:
    view = RunView(FakeClock())
    for value in [1000.0] * 5 + [1.0, 3.0] * 50:
        view.observe(EpisodeEnded(1, 0, value, 7, True, False, None))
    last = view.last_returns()
    assert (last.mean, last.std, last.length, last.n, view.episodes) == (2.0, 1.0, 7.0, 100, 105)


def test_a_later_note_does_not_hide_a_warning() -> None:
    view = RunView(FakeClock())
    for event in (Notice("a", "note"), warning("first"), warning("second"), Notice("b", "late")):
        view.observe(event)
    assert view.notice is not None
    assert (view.notice.message, view.warnings) == ("second", 2)


def test_evaluations_are_no_part_of_the_rate() -> None:
    clock = FakeClock()
    view = RunView(clock)
    view.observe(STARTED)
    view.observe(Progress(10, 10_000, 0, 0.1, {}))
    view.observe(Progress(1000, 10_000, 0, 10.0, {"eval": 0.0}))
    assert view.steps_per_s == pytest.approx(100)
    view.observe(Progress(1000, 10_000, 0, 50.0, {"eval": 40.0}))
    assert view.steps_per_s == pytest.approx(100)
    assert view.elapsed_s == pytest.approx(50)
    view.observe(Progress(1500, 10_000, 0, 55.0, {"eval": 40.0}))
    assert view.steps_per_s == pytest.approx(100)
    view.observe(RunEnded(1500, "stopped", 60.0, None))
    assert view.steps_per_s == pytest.approx(25)  # all that happened, over all of the time
