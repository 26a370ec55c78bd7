from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from steadyrl.training.displays.panel import panel_lines
from steadyrl.training.displays.text import (
    ASCII,
    UNICODE,
)
from steadyrl.training.displays.view import RunView
from steadyrl.training.events import Event, Notice, Progress
from support.simulated_run import LONG, FakeClock, SimulatedRun, awkward_events, warning


def view_of(run: SimulatedRun, until: float, *extra: Event) -> RunView:
    view = RunView(run.clock)
    for event in extra:
        view.observe(event)
    for event in run.events():
        view.observe(event)
        if isinstance(event, Progress) and event.step >= until * run.total:
            break
    return view


def test_the_panel_at_80_by_24_to_the_letter() -> None:
    run = SimulatedRun(total=200_000, seconds_per_step=lambda f: 1e-3, eval_every=20_000, eval_s=lambda f: 10.0)
    view = view_of(run, 0.5, warning("Something to look at."))
    lines = [line.plain.rstrip() for line in panel_lines(view, 80, 23, UNICODE)]
    assert lines[:14] == [
        "ppo on CartPole-v1, seed 3                                               running",
        "━" * 32 + "─" * 32 + " 50%, 2:40 left",
        "steps      100,352 of 200,000      1,000 per second",
        "time       2:20                    env 29% act 14% learn 26% eval 29% other 2%",
        "",
        "training   335.9 ± 99.23           last 100 of 392 episodes, length 335.9",
        "evaluation 284.3 [279.3, 289.3]    95% interval, 10 episodes, step 80,896",
        "best       284.3                   best evaluation, step 80,896",
        "",
        "learning   approx_kl          0.0123     clip_fraction      0.11",
        "           entropy_loss       -0.55      value_loss         12.31",
        "           explained_variance 0.87       learning_rate      0.0003",
        "",
        "evaluation " + lines[13][11:],
    ]
    assert lines[-2:] == [
        "warning    Something to look at.",
        "run folder runs/CartPole-v1/ppo/20260131T235959Z-seed3",
    ]
    assert len(lines) <= 23


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("height", [1, 2, 5, 9, 12, 23, 60])
@pytest.mark.parametrize("width", [1, 2, 10, 11, 12, 40, 80, 300])
def test_the_panel_fits_any_terminal(width: int, height: int, glyphs: Any) -> None:
    views = [RunView(FakeClock()), view_of(SimulatedRun(), 0.7, warning(LONG)), RunView(FakeClock())]
    for event in awkward_events():
        views[2].observe(event)
        lines = panel_lines(views[2], width, height, glyphs)
        assert len(lines) <= height
    for view in views:
        lines = panel_lines(view, width, height, glyphs)
        assert 1 <= len(lines) <= height
        assert all(cell_len(line.plain) <= width for line in lines)
        assert all(char.isprintable() for line in lines for char in line.plain)


def test_in_a_low_terminal_bar_and_warning_stay() -> None:
    view = view_of(SimulatedRun(), 0.7, warning("Look."))
    shown = [line.plain.split()[0] for line in panel_lines(view, 80, 5, UNICODE)]
    assert [word if word.isalpha() else "bar" for word in shown] == ["ppo", "bar", "warning", "training", "steps"]


def test_in_a_low_terminal_a_note_gives_way() -> None:
    view = view_of(SimulatedRun(), 0.7, Notice("a", "By the way."))
    assert not any("By the way" in line.plain for line in panel_lines(view, 80, 7, UNICODE))
    assert any("By the way" in line.plain for line in panel_lines(view, 80, 23, UNICODE))
