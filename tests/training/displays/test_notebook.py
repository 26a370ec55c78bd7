from __future__ import annotations

import io
from pathlib import Path

import pytest

from steadyrl.training.displays import make_display
from steadyrl.training.events import (
    RunStarted,
)
from support.fake_ipython import fake_ipython
from support.simulated_run import FakeClock, SimulatedRun, awkward_events, warning


def test_a_notebook_block_is_updated_in_place_at_most_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    ipython = fake_ipython(monkeypatch)
    run = SimulatedRun()
    display, start = make_display("notebook", io.StringIO(), clock=run.clock), run.clock.now
    for event in run.events():
        display(event)
    assert len(ipython.shown) == 1
    assert 5 <= len(ipython.updates) <= run.clock.now - start + 2
    last = ipython.updates[-1]
    for said in ("ppo on CartPole-v1, seed 3: finished", "100,000 of 100,000", "500.0 [495.0, 505.0]", "<polyline"):
        assert said in last


def test_a_notebook_block_escapes_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    ipython = fake_ipython(monkeypatch)
    display = make_display("notebook", io.StringIO(), clock=FakeClock())
    display(RunStarted("ppo", "<script>", 0, 0, 10, Path("<b>")))
    display(warning("<img src=x>"))
    for event in awkward_events():
        display(event)
    assert not any(tag in html for html in ipython.updates for tag in ("<script>", "<img", "<b>&", "<b><"))
    assert any("&lt;img src=x&gt;" in html for html in ipython.updates)
