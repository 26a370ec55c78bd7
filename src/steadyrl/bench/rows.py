"""What was measured, and what it speaks for: decisions as functions of numbers alone."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BACKENDS = ("sync", "native", "envpool", "async")  # the simpler one first
OTHER_RESULTS = ("native", "envpool")  # other trajectories than Gymnasium's for the same seed
NEAR = 0.96  # of the best: as good as it, as far as a measurement can tell
_MOST_OFF = 0.5  # what noise may make of a rate at most
FINAL = 0.85  # of the best: measured again before anything is recommended
_PAYS = 1.05  # times faster with more environments, or it is no use going on


@dataclass(frozen=True, order=True)
class Cell:
    """One way to step: so many environments on a backend."""

    num_envs: int
    backend: str
    num_workers: int | None = None

    @property
    def name(self) -> str:
        """For people."""
        if self.num_workers is None:
            return self.backend
        return f"{self.backend} ({self.num_workers} process{'es' if self.num_workers > 1 else ''})"


@dataclass(frozen=True)
class Row:
    """What a cell costs and gives; `reason` says why it could not be measured, and then there is nothing else.

    Attributes:
        cell: How environments were stepped.
        steps_per_second: Environment steps; the median of several turns.
        cores_busy: Seconds of CPU time a second, worker processes included.
        memory_bytes: Taken by the environments and their processes, beyond what the program had before.
        reason: Why there is no measurement.
        spread: How far the turns lay apart: half the distance between their quartiles, as a share of the median.
    """

    cell: Cell
    steps_per_second: float | None = None
    cores_busy: float | None = None
    memory_bytes: int | None = None
    reason: str = ""
    spread: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """As `steadyrl bench --json` has it."""
        measured = self.steps_per_second is not None
        per_env = None if self.memory_bytes is None else round(self.memory_bytes / self.cell.num_envs)
        return {
            "backend": self.cell.backend,
            "num_envs": self.cell.num_envs,
            "num_workers": self.cell.num_workers,
            "steps_per_second": self.steps_per_second,
            "spread": self.spread if measured else None,
            "us_per_step": 1e6 / self.steps_per_second if measured and self.steps_per_second else None,
            "cores_busy": self.cores_busy,
            "memory_bytes": self.memory_bytes,
            "memory_bytes_per_env": per_env,
            "reason": self.reason or None,
        }


def rate_of(rows: Iterable[Row], cell: Cell) -> float | None:
    """The measured rate of a cell."""
    return next((row.steps_per_second for row in rows if row.cell == cell), None)


def still_pays(rates: Sequence[float]) -> bool:
    """Whether to go on to more environments: not after two numbers in a row that were hardly faster than fewer.

    Args:
        rates: A backend's best rate at each number of environments so far, in rising order.
    """
    if len(rates) < 3:
        return True
    before = max(rates[:-2])
    return max(rates[-2:]) >= _PAYS * before


def finalists(rows: Iterable[Row], most: int) -> list[Cell]:
    """The cells that may be the best, the fastest first, to be measured once more side by side: those near the best, or
    that would be if both were off by as much as their turns lay apart."""
    ranked = sorted(_measured(rows), key=lambda row: -(row.steps_per_second or 0.0))
    best = ranked[0] if ranked else None
    return [row.cell for row in ranked if best is not None and _may_equal(row, best)][:most]


def _may_equal(row: Row, best: Row) -> bool:
    off = max(1.0 - FINAL, row.spread + best.spread)
    return (row.steps_per_second or 0.0) >= (1.0 - min(off, _MOST_OFF)) * (best.steps_per_second or 0.0)


def recommended(rows: Iterable[Row], *, same_results: bool = False) -> Row | None:
    """The row with the fewest environments, then the simplest backend, then the fewest processes, that is as good as
    the best.

    Args:
        rows: All rows.
        same_results: Only backends with Gymnasium's own trajectories.
    """
    measured = [row for row in _measured(rows) if not (same_results and row.cell.backend in OTHER_RESULTS)]
    if not measured:
        return None
    best = max(row.steps_per_second or 0.0 for row in measured)
    good = [row for row in measured if (row.steps_per_second or 0.0) >= NEAR * best]
    return min(good, key=lambda row: (row.cell.num_envs, BACKENDS.index(row.cell.backend), row.cell.num_workers or 0))


def most_that_fit(memory_per_env: float, allowed_bytes: float) -> int | None:
    """How many environments the allowed memory holds; None where one takes too little to tell."""
    return int(allowed_bytes // memory_per_env) if memory_per_env > 1e5 else None


def per_core(busy: float) -> float:
    """How many environments one core keeps going at their own speed, where each needs this share of it."""
    return 1.0 / max(busy, 0.01)


def command(algo: str, env: str, cell: Cell, *, threads: int | None = None, extra: Sequence[str] = ()) -> str:
    """The command line that trains with these settings, to be pasted."""
    words = ["steadyrl", "train", algo, env, "--vec", cell.backend, "--num-envs", str(cell.num_envs)]
    if cell.num_workers is not None:
        words += ["--num-workers", str(cell.num_workers)]
    if threads is not None:
        words += ["--threads", str(threads)]
    return shlex.join([*words, *extra])


def shares(seconds: Mapping[str, float]) -> dict[str, float]:
    """Parts of the whole, in the order of the seconds, the longest first."""
    total = sum(seconds.values())
    ranked = sorted(seconds.items(), key=lambda item: -item[1])
    return {name: value / total for name, value in ranked} if total > 0 else {}


def _measured(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.steps_per_second is not None]
