"""Measures backends and numbers of environments in turns, as far as it pays and the time allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from steadyrl.bench.load import Load, family, memory_bytes
from steadyrl.bench.rows import BACKENDS, OTHER_RESULTS, Cell, Row, finalists, still_pays
from steadyrl.envs.adapter import VectorAdapter
from steadyrl.envs.choice import PROCESS_BYTES, workers_to_try
from steadyrl.envs.make import EnvFactory
from steadyrl.envs.timing import SEED, Cost, Timed, undisturbed
from steadyrl.envs.vector import make_vec
from steadyrl.errors import SteadyRLError

ROUNDS = 5
_FINAL_ROUNDS = 11
_FINALISTS = 5
_SHARE = 0.5  # of the time for going over all cells; the rest for the finalists and what else there is
_FINAL_SHARE = 0.3
_LEAST_S = 0.02  # a turn that is shorter says little
_LONGEST = 0.25  # of the whole time that one vector step may take


@dataclass(frozen=True)
class Limits:
    """What a measurement may take.

    Attributes:
        seconds: Time for all cells together, start-up of processes aside.
        memory_bytes: For the environments and their processes.
        cores: That this process may use.
    """

    seconds: float
    memory_bytes: float
    cores: int


@dataclass
class _Open:
    """A cell that is being measured."""

    cell: Cell
    timed: Timed
    load: Load
    memory: int


class Sweep:
    """Measures cells.

    Args:
        factory: Makes the environments.
        cost: What one of them costs.
        limits: What it may take.
        workers: Numbers of processes to try; empty for what seems sensible.
        say: Told each row.
        going: Called with True before each turn of steps, with False before what may take long.
    """

    def __init__(
        self,
        factory: EnvFactory,
        cost: Cost,
        limits: Limits,
        workers: Sequence[int] = (),
        say: Callable[[Row], None] = lambda row: None,
        going: Callable[[bool], None] = lambda stepping: None,
    ) -> None:
        self._factory = factory
        self._cost = cost
        self._limits = limits
        self._workers = workers
        self._say = say
        self._going = going
        self.rows: list[Row] = []
        self._rates: dict[Cell, list[float]] = {}

    def run(self, numbers: Sequence[int], also: Iterable[Cell] = ()) -> list[Row]:
        """Measure every backend with these numbers of environments, in rising order, until more does not pay.

        Args:
            numbers: Of environments.
            also: Cells to measure whatever the others say.
        """
        alive: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
        wanted = set(also)
        turn = self._limits.seconds * _SHARE / (len(numbers) * 3 * ROUNDS)
        for number in sorted(set(numbers) | {cell.num_envs for cell in wanted}):
            cells = [cell for backend in alive for cell in self.cells(backend, number)]
            cells += sorted(cell for cell in wanted if cell.num_envs == number and cell not in cells)
            found = self._measure(cells, turn, ROUNDS)
            for backend, rates in [*alive.items()]:
                own = [row for row in found if row.cell.backend == backend]
                best = max((row.steps_per_second or 0.0 for row in own), default=0.0)
                rates.append(best)
                if (not best and backend in OTHER_RESULTS) or not still_pays(rates):
                    del alive[backend]
        again = finalists(self.rows, _FINALISTS)
        if len(again) > 1:
            turn = self._limits.seconds * _FINAL_SHARE / (len(again) * _FINAL_ROUNDS)
            self._measure(again, turn, _FINAL_ROUNDS)
        return self.rows

    def cells(self, backend: str, number: int) -> list[Cell]:
        """The cells of a backend with so many environments."""
        if backend != "async":
            return [Cell(number, backend)]
        if number == 1 and not self._workers:
            return []  # one environment is no faster for being elsewhere
        if self._workers:
            return [Cell(number, backend, workers) for workers in sorted({min(w, number) for w in self._workers})]
        tried = workers_to_try(self._cost, number, self._limits.cores, int(self._limits.memory_bytes))
        return [Cell(number, backend, workers) for workers in tried or [min(number, self._limits.cores)]]

    def _measure(self, cells: Sequence[Cell], turn: float, rounds: int) -> list[Row]:
        """Rows of these cells, measured side by side in rounds; what was known of a cell before counts as well."""
        found: list[Row] = []
        with undisturbed(), ExitStack() as stack:
            opened: list[_Open] = []
            for cell in cells:
                reason = self._refusal(cell)
                try:
                    if not reason:
                        opened.append(self._open(cell, stack))
                except SteadyRLError as error:
                    reason = error.message
                if reason:
                    found.append(Row(cell, reason=reason))
            for _ in range(rounds):
                for each in opened:
                    self._going(True)
                    each.load.watch(lambda each=each: each.timed.turn(max(turn, _LEAST_S)))  # type: ignore[misc]
            self._going(False)
            found += [self._row(each) for each in opened]
        kept = {row.cell: row for row in self.rows} | {row.cell: row for row in found}
        self.rows = [*kept.values()]
        for row in found:
            self._say(row)
        return found

    def _open(self, cell: Cell, stack: ExitStack) -> _Open:
        before = memory_bytes()
        envs = open_cell(self._factory, cell)
        stack.callback(envs.close)
        envs.reset(list(range(SEED, SEED + cell.num_envs)))
        timed = Timed(envs, envs.spec.action_space, masks=envs.allowed)
        self._going(True)
        timed.turn(_LEAST_S)  # processes wake up, code is loaded, memory is touched
        self._going(False)
        timed.rates[:] = self._rates.get(cell, [])
        return _Open(cell, timed, Load(family()), max(memory_bytes() - before, 0))

    def _row(self, opened: _Open) -> Row:
        self._rates[opened.cell] = opened.timed.rates
        timed = opened.timed
        return Row(opened.cell, timed.rate, opened.load.cores, opened.memory, spread=timed.spread)

    def _refusal(self, cell: Cell) -> str:
        """Why a cell is not tried; empty where it is."""
        if self._factory.is_instance:
            return "an environment instance is never copied"
        if cell.backend == "sync":
            step = cell.num_envs * self._cost.step_s
            if step > _LONGEST * self._limits.seconds:
                return f"one step of all would take {step:.1f} s: give more --seconds"
        if cell.backend == "async":
            need = PROCESS_BYTES * (cell.num_workers or cell.num_envs)
            if need > self._limits.memory_bytes:
                return f"its processes would take {need / 2**20:,.0f} MiB, more than the memory limit"
        known = [row for row in self.rows if row.memory_bytes and row.cell.backend == cell.backend]
        per_env = max((row.memory_bytes / row.cell.num_envs for row in known if row.memory_bytes), default=0.0)
        if per_env * cell.num_envs > self._limits.memory_bytes:
            return f"it would take {per_env * cell.num_envs / 2**20:,.0f} MiB, more than the memory limit"
        return ""


def open_cell(factory: EnvFactory, cell: Cell) -> VectorAdapter:
    """The environments of a cell."""
    vec: Any = cell.backend
    return make_vec(factory, cell.num_envs, vec=vec, num_workers=cell.num_workers, masks="auto")
