"""What rows speak for, with known answers."""

from __future__ import annotations

import pytest

from steadyrl.bench.rows import (
    Cell,
    Row,
    command,
    finalists,
    most_that_fit,
    per_core,
    rate_of,
    recommended,
    still_pays,
)


def row(rate: float | None, num_envs: int, backend: str = "sync", workers: int | None = None) -> Row:
    return Row(Cell(num_envs, backend, workers), rate)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row(100, 1), row(200, 2), row(205, 4)], Cell(2, "sync")),  # half the environments are as good
        ([row(100, 1), row(200, 2), row(220, 4)], Cell(4, "sync")),
        ([row(200, 4, "async", 4), row(195, 4)], Cell(4, "sync")),  # the simpler one
        ([row(200, 4, "async", 4), row(195, 4, "async", 2)], Cell(4, "async", 2)),  # fewer processes
        ([row(None, 1), row(7, 2, "async")], Cell(2, "async")),
        ([row(100, 8), row(100, 8, "envpool"), row(500, 8, "native")], Cell(8, "native")),
    ],
)
def test_the_smallest_row_that_is_as_good_as_the_best_is_recommended(rows: list[Row], expected: Cell) -> None:
    found = recommended(rows)
    assert found is not None
    assert found.cell == expected


def test_the_same_results_leave_out_what_draws_otherwise() -> None:
    rows = [row(100, 8), row(300, 8, "envpool"), row(500, 8, "native"), row(110, 8, "async", 2)]
    found = recommended(rows, same_results=True)
    assert found is not None
    assert found.cell == Cell(8, "async", 2)
    assert recommended([row(300, 8, "envpool")], same_results=True) is None
    assert recommended([row(None, 8)]) is None


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([], True),
        ([100.0, 50.0], True),  # one number says little
        ([100.0, 101.0, 102.0], False),
        ([100.0, 101.0, 106.0], True),
        ([100.0, 106.0, 90.0], True),
        ([100.0, 200.0, 150.0, 160.0], False),
    ],
)
def test_it_stops_after_two_numbers_that_are_hardly_faster(rates: list[float], expected: bool) -> None:
    assert still_pays(rates) is expected


def test_finalists_are_near_the_best_and_the_fastest_first() -> None:
    rows = [row(86, 1), row(84, 2), row(100, 4), row(90, 8), row(None, 16)]
    assert finalists(rows, 4) == [Cell(4, "sync"), Cell(8, "sync"), Cell(1, "sync")]
    assert finalists(rows, 2) == [Cell(4, "sync"), Cell(8, "sync")]
    assert finalists([row(None, 1)], 4) == []


def test_noisy_rows_have_another_chance() -> None:
    noisy = Row(Cell(1, "sync"), 70.0, spread=0.2)
    best = Row(Cell(4, "sync"), 100.0, spread=0.15)
    assert finalists([noisy, best], 4) == [best.cell, noisy.cell]
    assert finalists([Row(Cell(1, "sync"), 49.0, spread=0.9), best], 4) == [best.cell]


def test_the_command_can_be_pasted() -> None:
    cell = Cell(8, "async", 2)
    assert command("ppo", "my env.py:E", cell, threads=1, extra=["--env-kwargs", "a=b c"]) == (
        "steadyrl train ppo 'my env.py:E' --vec async --num-envs 8 --num-workers 2 --threads 1 --env-kwargs 'a=b c'"
    )
    assert command("sac", "X-v0", Cell(8, "sync")) == "steadyrl train sac X-v0 --vec sync --num-envs 8"


def test_memory_and_cores_hold_so_many() -> None:
    assert most_that_fit(1e6, 7.5e6) == 7
    assert most_that_fit(500.0, 7.5e6) is None
    assert (per_core(1.0), per_core(0.25), per_core(0.0)) == (1.0, 4.0, 100.0)


def test_a_row_as_json_has_every_field() -> None:
    found = Row(Cell(4, "async", 2), 2000.0, 1.5, 4_000_000).to_json()
    assert found == {
        "backend": "async",
        "num_envs": 4,
        "num_workers": 2,
        "steps_per_second": 2000.0,
        "spread": 0.0,
        "us_per_step": 500.0,
        "cores_busy": 1.5,
        "memory_bytes": 4_000_000,
        "memory_bytes_per_env": 1_000_000,
        "reason": None,
    }
    refused = Row(Cell(4, "envpool"), reason="not installed").to_json()
    assert refused.keys() == found.keys()
    assert (refused["steps_per_second"], refused["us_per_step"], refused["reason"]) == (None, None, "not installed")
    assert rate_of([row(3.0, 1)], Cell(1, "sync")) == 3.0
    assert rate_of([row(3.0, 1)], Cell(2, "sync")) is None
