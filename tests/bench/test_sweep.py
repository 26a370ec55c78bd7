"""Which cells are measured, in which order, and what stops it; rates come from a table instead of a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from steadyrl.bench import sweep as module
from steadyrl.bench.rows import Cell, Row, recommended
from steadyrl.bench.sweep import Limits, Sweep
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.timing import Cost, Timed
from steadyrl.errors import UserError

Rate = Callable[[Cell], float]
LIMITS = Limits(1.0, 2**30, 2)


class FakeVec:
    """A vector that only knows which cell it is."""

    allowed = None

    def __init__(self, cell: Cell, log: list[Any]) -> None:
        self.cell, self.num_envs, self._log = cell, cell.num_envs, log
        self.spec = SimpleNamespace(action_space=spaces.Discrete(2))
        log.append(("open", cell))

    def reset(self, seeds: list[int]) -> None:
        assert len(set(seeds)) == self.num_envs

    def step(self, actions: Any) -> None:
        raise AssertionError("turns are taken from the table")

    def close(self) -> None:
        self._log.append(("close", self.cell))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What was opened, stepped and closed."""
    found: list[Any] = []
    monkeypatch.setattr(module, "memory_bytes", lambda: 0)
    yield found
    opened = [cell for what, cell in found if what == "open"]
    closed = [cell for what, cell in found if what == "close"]
    assert sorted(map(str, opened)) == sorted(map(str, closed))


def measured(
    monkeypatch: pytest.MonkeyPatch, log: list[Any], rate: Rate, numbers: list[int], **options: Any
) -> list[Row]:
    """The rows of a sweep over `numbers`, where each cell has the rate that the table says."""

    def opened(factory: Any, cell: Cell) -> Any:
        if rate(cell) <= 0:
            raise UserError(f"no {cell.backend} here", code="x")
        return FakeVec(cell, log)

    def turn(self: Any, seconds: float) -> float:
        log.append(("turn", self.cell))
        self.rates.append(rate(self.cell))
        return float(self.rates[-1])

    class Table(Timed):
        def __init__(self, envs: Any, space: Any, masks: Any = None) -> None:
            super().__init__(envs, space, masks=masks)
            self.cell = envs.cell

    Table.turn = turn  # type: ignore[method-assign]
    monkeypatch.setattr(module, "open_cell", opened)
    monkeypatch.setattr(module, "family", list)  # no process is looked at
    monkeypatch.setattr(module, "Timed", Table)
    cost = options.pop("cost", Cost(1e-3, 1e-5, 1.0, draws=False))
    limits = options.pop("limits", LIMITS)
    also = options.pop("also", ())
    sweep = Sweep(make_env_factory("CartPole-v1"), cost, limits, **options)
    return sweep.run(numbers, also)


def found(rows: list[Row], backend: str) -> list[int]:
    return sorted(row.cell.num_envs for row in rows if row.cell.backend == backend and row.steps_per_second)


def test_a_backend_that_grows_no_faster_is_left_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, log: list[Any]
) -> None:
    def rate(cell: Cell) -> float:
        return {"sync": 100.0, "native": 10.0 * cell.num_envs, "envpool": 0.0, "async": 20.0}[cell.backend]

    rows = measured(monkeypatch, log, rate, [1, 2, 4, 8, 16])
    assert found(rows, "sync") == [1, 2, 4]
    assert found(rows, "native") == [1, 2, 4, 8, 16]
    assert found(rows, "async") == [2, 4, 8]  # one environment is not sent elsewhere
    assert [row.reason for row in rows if row.cell.backend == "envpool"] == ["no envpool here"]  # asked once


def test_cells_of_one_number_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch, log: list[Any]) -> None:
    measured(monkeypatch, log, lambda cell: 1.0 if cell.backend in ("sync", "native") else 0.0, [1])
    turns = [cell.backend for what, cell in log if what == "turn"]
    assert turns[2:12] == ["sync", "native"] * 5


def test_finalists_are_measured_again_and_all_their_turns_count(
    monkeypatch: pytest.MonkeyPatch, log: list[Any]
) -> None:
    seen: dict[Cell, int] = {}

    def rate(cell: Cell) -> float:
        if cell.backend not in ("sync", "native"):
            return 0.0
        seen[cell] = seen.get(cell, 0) + 1
        lucky = cell.backend == "native" and seen[cell] <= 7  # one look more for whether it opens at all
        return 120.0 if lucky else 90.0 if cell.backend == "native" else 110.0

    rows = measured(monkeypatch, log, rate, [1])
    by_backend = {row.cell.backend: row.steps_per_second for row in rows}
    assert by_backend["native"] == 90.0  # the median of 5 lucky turns and 11 others
    assert by_backend["sync"] == 110.0


def test_a_cell_that_is_asked_for_is_measured_whatever_the_others_say(
    monkeypatch: pytest.MonkeyPatch, log: list[Any]
) -> None:
    rows = measured(
        monkeypatch, log, lambda cell: 1.0 if cell.backend == "sync" else 0.0, [1, 2, 4], also=[Cell(64, "sync")]
    )
    assert found(rows, "sync") == [1, 2, 4, 64]


@pytest.mark.parametrize(
    ("limits", "workers", "backend", "reason"),
    [
        (Limits(1.0, 2**20, 2), [2], "async", "more than the memory limit"),
        (Limits(1e-6, 2**30, 2), [], "sync", "one step of all would take"),
    ],
)
def test_what_takes_too_much_is_a_row_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, log: list[Any], limits: Limits, workers: list[int], backend: str, reason: str
) -> None:
    rows = measured(monkeypatch, log, lambda cell: 1.0, [2], limits=limits, workers=workers)
    (refused,) = [row for row in rows if row.cell.backend == backend]
    assert refused.steps_per_second is None
    assert reason in refused.reason
    assert ("open", refused.cell) not in log


def test_numbers_of_processes_that_are_asked_for_are_tried(monkeypatch: pytest.MonkeyPatch, log: list[Any]) -> None:
    rows = measured(monkeypatch, log, lambda cell: 1.0, [1, 4], workers=[2, 8])
    assert sorted(row.cell for row in rows if row.cell.backend == "async") == [
        Cell(1, "async", 1),
        Cell(4, "async", 2),
        Cell(4, "async", 4),
    ]


def test_memory_that_fewer_environments_took_is_held_against_more(
    monkeypatch: pytest.MonkeyPatch, log: list[Any]
) -> None:
    taken = iter([0, 600, *([10_000] * 200)])
    monkeypatch.setattr(module, "memory_bytes", lambda: next(taken))
    limits = Limits(1.0, 1000, 2)
    rows = measured(monkeypatch, log, lambda cell: 1.0 if cell.backend == "sync" else 0.0, [1, 2], limits=limits)
    (reason,) = [row.reason for row in rows if row.cell == Cell(2, "sync")]
    assert reason == "it would take 0 MiB, more than the memory limit"


MACHINES: dict[str, Rate] = {
    # Steps per second as they were measured on two cores, by backend: CartPole, HalfCheetah, Pong, one that waits 5 ms.
    "cheap": lambda c: {
        "sync": 1e6 / (9 + 25 / c.num_envs), "native": 1e6 / (2 + 60 / c.num_envs), "envpool": 0.0,
        "async": 1e6 / (20 + 150 / c.num_envs),
    }[c.backend],
    "dear": lambda c: {
        "sync": 1e6 / (38 + 15 / c.num_envs), "native": 0.0, "envpool": 1e6 / (15 + 20 / c.num_envs),
        "async": 1e6 / (25 + 200 / c.num_envs),
    }[c.backend],
    "pictures": lambda c: {
        "sync": 1e6 / (500 + 15 / c.num_envs), "native": 0.0, "envpool": 0.0, "async": 1e6 / (290 + 200 / c.num_envs)
    }[c.backend],
    "waiting": lambda c: {
        "sync": 194.0, "native": 0.0, "envpool": 0.0, "async": c.num_envs / 5.3e-3
    }[c.backend],
}  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
def test_the_recommendation_is_within_a_tenth_of_the_best_whatever_the_noise(
    monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    true = MACHINES[machine]
    monkeypatch.setattr(module, "memory_bytes", lambda: 0)
    good, runs = 0, 20
    for seed in range(runs):
        noise = np.random.default_rng(seed)

        def rate(cell: Cell, noise: np.random.Generator = noise) -> float:
            return true(cell) * float(np.exp(noise.normal(0.0, 0.08)))

        cost = Cost(1e-3, 5e-3, 0.01, draws=False) if machine == "waiting" else Cost(1e-3, 1e-5, 1.0, draws=False)
        limits = Limits(20.0, 2**34, 2)
        rows = measured(monkeypatch, [], rate, [1, 2, 4, 8, 16], cost=cost, limits=limits)
        chosen = recommended(rows)
        assert chosen is not None
        tried = [row.cell for row in rows if row.steps_per_second]
        good += true(chosen.cell) >= 0.9 * max(true(cell) for cell in tried)
    assert good >= runs - 1
