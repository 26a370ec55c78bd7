"""The whole measurement on a small environment, its document and its page."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from steadyrl.bench.learning import Settings, Trained, candidates, fastest
from steadyrl.bench.page import show
from steadyrl.bench.report import Asked, Report, bench
from steadyrl.bench.rows import Cell, Row
from steadyrl.bench.split import Beside
from steadyrl.envs.timing import Cost
from steadyrl.errors import UserError

COST = Cost(0.01, 1e-4, 0.25, draws=False)


def report(**changes: Any) -> Report:
    chosen = Row(Cell(4, "native"), 4000.0, 1.0, 4_000_000)
    rows = [Row(Cell(1, "sync"), 1000.0, 1.0, 50), chosen, Row(Cell(4, "envpool"), reason="it is not installed")]
    given: dict[str, Any] = {
        "asked": Asked("X-v0"),
        "cost": COST,
        "rows": rows,
        "beside": [Beside("sync", 4, 10.0, 12.5, 13.0)],
        "trained": [],
        "default": Cell(1, "sync"),
        "chosen": chosen,
        "same": rows[0],
        "threads": None,
        "gain": 4.0,
        "memory": (7e6, "0.7 of the 10 MB of free memory is 7 MB"),
        "wall_s": 3.0,
    }
    return Report(**given | changes)


def page(found: Report, width: int = 100) -> str:
    stream = io.StringIO()
    show(found, Console(file=stream, width=width, highlight=False))
    return stream.getvalue()


def test_the_document_says_everything() -> None:
    document = report().to_json()
    assert document["recommendation"] == {
        "backend": "native",
        "num_envs": 4,
        "num_workers": None,
        "threads": None,
        "steps_per_second": 4000.0,
        "gain": 4.0,
        "default": {"backend": "sync", "num_envs": 1},
        "same_results": False,
        "command": "steadyrl train ppo X-v0 --vec native --num-envs 4",
    }
    assert document["memory"] == {
        "allowed_bytes": 7e6,
        "why": "0.7 of the 10 MB of free memory is 7 MB",
        "most_environments": 7,
    }
    assert document["cost"]["environments_per_core"] == 4.0
    assert document["beside_gymnasium"][0]["overhead_over_gymnasium"] == pytest.approx(0.04)
    assert [row["backend"] for row in document["rows"]] == ["sync", "native", "envpool"]
    assert report(chosen=None).to_json()["recommendation"] is None


def test_the_page_says_it_in_words_and_ends_with_the_command() -> None:
    text = page(report())
    lines = text.rstrip().splitlines()
    assert lines[-1].strip() == "steadyrl train ppo X-v0 --vec native --num-envs 4"
    assert "Recommended: 4 x native, stepping 4.0 times as fast as the default (1 x sync)." in text
    assert "native draws other random numbers" in text
    assert "with the same ones: 1 x sync, 1,000 steps/s without learning." in text
    assert "about 7 such environments fit" in text
    assert "envpool (4): it is not installed" in text
    assert "one core keeps about 4 of them going" in text
    assert "+4%" in text
    assert all(len(line) <= 100 for line in lines if "  " in line.strip())  # the tables


@pytest.mark.parametrize(("cores", "busy", "disturbed"), [(0.6, 1.0, True), (0.9, 1.0, False), (0.1, 0.2, False)])
def test_a_busy_machine_is_said(cores: float, busy: float, disturbed: bool) -> None:
    row = Row(Cell(4, "sync"), 4000.0, cores)
    found = report(rows=[row], chosen=row, cost=Cost(0.01, 1e-4, busy, draws=False))
    assert found.to_json()["disturbed"] is disturbed
    assert ("Other programs kept the cores busy" in page(found)) is disturbed


def test_a_long_command_stays_in_one_line() -> None:
    text = page(report(asked=Asked("X-v0", extra=["--env-kwargs", "path=" + 30 * "long/"])), width=60)
    assert text.splitlines()[-1].endswith(30 * "long/")


def test_nothing_measured_is_said() -> None:
    assert "Nothing could be measured" in page(report(chosen=None, rows=[], beside=[]))


def test_trainings_are_shown_with_their_phases() -> None:
    settings = Settings(Cell(8, "sync"), 1)
    phases = (("environment", 1e-6), ("network", 1e-6), ("learning", 2e-6), ("other", 0.0))
    failed = Trained(Settings(Cell(8, "async")), reason="no time")
    text = page(report(trained=[Trained(settings, 500.0, phases), failed]))
    (line,) = [line for line in text.splitlines() if line.startswith("8 x sync, 1 thread")]
    assert line.split()[-5:] == ["500", "25%", "25%", "50%", "0%"]


def test_the_earlier_of_two_trainings_as_good_as_equal_is_taken() -> None:
    slow, quick = (Trained(Settings(Cell(n, "sync")), rate) for n, rate in ((1, 98.0), (2, 100.0)))
    assert fastest([slow, quick]) is slow
    assert fastest([Trained(Settings(Cell(1, "sync")), 96.0), quick]) is quick
    assert fastest([Trained(Settings(Cell(1, "sync")), reason="x")]) is None


def test_the_default_is_tried_first_and_one_thread_where_there_are_cores() -> None:
    default, best = Cell(8, "sync"), Cell(32, "async", 2)
    assert candidates(default, [default, best], 2) == [Settings(default), Settings(best), Settings(best, 1)]
    assert candidates(default, [default], 1) == [Settings(default)]


def test_a_real_environment_is_measured(tmp_path: Path) -> None:
    said: list[Row] = []
    found = bench(Asked("CartPole-v1", num_envs=(1, 2), seconds=0.5), said.append)
    rates = {row.cell.backend: row.steps_per_second for row in found.rows if row.cell.num_envs == 2}
    assert {name for name, rate in rates.items() if rate} == {"sync", "native", "async"}
    assert found.chosen in found.rows
    assert found.command is not None
    assert found.gain is not None
    assert found.gain > 0
    assert {row.cell for row in said} == {row.cell for row in found.rows}
    assert {each.backend for each in found.beside} == {"sync", "async"}
    assert all(each.env_us > 0 and each.gymnasium_us > 0 and each.ours_us > 0 for each in found.beside)


def test_a_short_training_has_its_phases_and_its_gain() -> None:
    asked = Asked("CartPole-v1", algo="ppo", num_envs=(8,), seconds=0.5)
    found = bench(asked)
    first = found.trained[0]
    assert first.settings.cell == Cell(8, "sync")
    assert first.steps_per_second is not None
    phases = dict(first.phases)
    assert phases.keys() == {"environment", "network", "learning", "other"}
    assert min(phases["environment"], phases["network"], phases["learning"]) > 0
    assert sum(phases.values()) == pytest.approx(1 / first.steps_per_second, rel=0.5)
    assert found.command is not None
    assert found.command.startswith("steadyrl train ppo CartPole-v1 --vec ")


def test_a_limit_that_is_none_is_refused_before_anything_is_made() -> None:
    with pytest.raises(UserError, match="memory_limit is 'lots'"):
        bench(Asked("CartPole-v1", memory_limit="lots"))
