"""The whole of `steadyrl bench`: what is measured one after the other, and the document of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from steadyrl import kernels
from steadyrl.bench.rows import (
    OTHER_RESULTS,
    Cell,
    Row,
    command,
    most_that_fit,
    per_core,
    rate_of,
    recommended,
)
from steadyrl.bench.split import Beside, beside
from steadyrl.bench.sweep import Limits, Sweep
from steadyrl.config import resolve
from steadyrl.data.memory import memory_allowed
from steadyrl.envs.make import EnvFactory, make_env_factory
from steadyrl.envs.timing import Cost, cost_of, is_gymnasiums
from steadyrl.envs.workers.cost import cost_elsewhere
from steadyrl.errors import UserError

if TYPE_CHECKING:
    from steadyrl.bench.learning import Trained

_BESIDE = 8  # environments at which ours and Gymnasium's are compared, or fewer where fewer are measured
_WHOLE = 0.7  # of a core; less is not what an environment in this process uses, where nothing disturbs it
_BESIDE_SHARE = 0.1  # of the time, for each comparison
_TRAIN_SHARE = 1.0  # of the time again, for trainings where an algorithm is named


@dataclass(frozen=True)
class Asked:
    """What is to be measured."""

    env: str
    algo: str | None = None
    num_envs: Sequence[int] = (1, 2, 4, 8, 16)
    num_workers: Sequence[int] = ()
    seconds: float = 20.0
    memory_limit: str | None = None
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    max_episode_steps: int | None = None
    extra: Sequence[str] = ()
    env_timeout: float = 60.0


@dataclass(frozen=True)
class Report:
    """What was measured, and what it speaks for.

    Attributes:
        asked: What was to be measured.
        cost: What one environment costs.
        rows: Backends and numbers of environments.
        beside: Ours and Gymnasium's.
        trained: Short trainings; the first one with the default settings.
        default: What a training takes when nothing is said.
        chosen: The recommended row; None where nothing could be measured.
        same: The same among backends with Gymnasium's trajectories.
        threads: Recommended, None to leave them as they are.
        gain: How many times faster than the default.
        memory: Bytes that environments may take, and where that comes from.
        wall_s: Seconds that everything took.
    """

    asked: Asked
    cost: Cost
    rows: list[Row]
    beside: list[Beside]
    trained: list[Trained]
    default: Cell
    chosen: Row | None
    same: Row | None
    threads: int | None
    gain: float | None
    memory: tuple[float, str]
    wall_s: float

    @property
    def command(self) -> str | None:
        """The command line to paste."""
        if self.chosen is None:
            return None
        algo = self.asked.algo or "ppo"
        return command(algo, self.asked.env, self.chosen.cell, threads=self.threads, extra=self.asked.extra)

    @property
    def disturbed(self) -> bool:
        """Whether other programs took the CPU away: environments that never wait did not have a whole core."""
        alone = [row.cores_busy for row in self.rows if row.cell.backend == "sync" and row.cores_busy is not None]
        return self.cost.busy == 1.0 and any(cores < _WHOLE for cores in alone)

    @property
    def fits(self) -> int | None:
        """How many environments like the recommended ones the memory holds; None where they take next to nothing."""
        row = self.chosen
        if row is None or not row.memory_bytes:
            return None
        return most_that_fit(row.memory_bytes / row.cell.num_envs, self.memory[0])

    def to_json(self) -> dict[str, Any]:
        """The one document of `steadyrl bench --json`."""
        return {
            "env": self.asked.env,
            "algo": self.asked.algo,
            "cores": kernels.usable_cores(),
            "cost": {
                "make_s": self.cost.make_s,
                "step_us": 1e6 * self.cost.step_s,
                "cpu_share": self.cost.busy,
                "environments_per_core": per_core(self.cost.busy),
            },
            "rows": [row.to_json() for row in self.rows],
            "beside_gymnasium": [each.to_json() for each in self.beside],
            "training": [each.to_json() for each in self.trained],
            "memory": {"allowed_bytes": self.memory[0], "why": self.memory[1], "most_environments": self.fits},
            "recommendation": None if self.chosen is None else self._recommendation(self.chosen),
            "disturbed": self.disturbed,
            "wall_s": self.wall_s,
        }

    def _recommendation(self, row: Row) -> dict[str, Any]:
        return {
            "backend": row.cell.backend,
            "num_envs": row.cell.num_envs,
            "num_workers": row.cell.num_workers,
            "threads": self.threads,
            "steps_per_second": row.steps_per_second,
            "gain": self.gain,
            "default": {"backend": self.default.backend, "num_envs": self.default.num_envs},
            "same_results": row.cell.backend not in OTHER_RESULTS,
            "command": self.command,
        }


def bench(
    asked: Asked,
    say: Callable[[Row], None] = lambda row: None,
    going: Callable[[bool], None] = lambda stepping: None,
) -> Report:
    """Measure.

    Args:
        asked: What.
        say: Told each row once it is known.
        going: Called with True before each turn of steps, with False before what may take long.

    Raises:
        UserError: an environment or algorithm that does not exist or cannot be made, or a limit that is none.
        RunFailedError: the environment failed.
    """
    start = perf_counter()
    memory = memory_allowed(asked.memory_limit)
    factory = make_env_factory(asked.env, env_kwargs=dict(asked.env_kwargs), max_episode_steps=asked.max_episode_steps)
    default = Cell(1 if asked.algo is None else resolve(asked.algo, factory.id, overrides={}).config.num_envs, "sync")
    cost = _cost(factory, asked.env_timeout)
    limits = Limits(asked.seconds, memory[0], kernels.usable_cores())
    sweep = Sweep(factory, cost, limits, asked.num_workers, say, going)
    rows = sorted(sweep.run(asked.num_envs, [default]), key=lambda row: (row.cell.num_envs, row.cell.backend))
    chosen, same = recommended(rows), recommended(rows, same_results=True)
    compared = _beside(factory, cost, rows, asked)
    trained, threads, gain = _trained(asked, default, chosen, same, rows)
    if trained and (best := _fastest(trained)) is not None:
        chosen = next((row for row in rows if row.cell == best), chosen)
    return Report(
        asked, cost, rows, compared, trained, default, chosen, same, threads, gain, memory, perf_counter() - start
    )


def _cost(factory: EnvFactory, timeout: float) -> Cost:
    """What an environment costs; code that does not come with Gymnasium is tried in another process, where there can be
    one."""
    if not is_gymnasiums(factory):
        try:
            return cost_elsewhere(factory, timeout)
        except UserError as error:
            if error.code not in ("env-pickle", "env-context"):
                raise
    cost_of(factory)  # imports what it needs
    return cost_of(factory)


def _beside(factory: EnvFactory, cost: Cost, rows: Sequence[Row], asked: Asked) -> list[Beside]:
    """Ours and Gymnasium's, for the backends that both have, at the number of environments next to eight."""
    found = []
    for backend in ("sync", "async"):
        measured = [row.cell for row in rows if row.cell.backend == backend and row.steps_per_second]
        if measured:
            cell = min(measured, key=lambda cell: (abs(cell.num_envs - _BESIDE), cell.num_workers or 0))
            each = beside(factory, cell, asked.seconds * _BESIDE_SHARE, busy=cost.busy)
            found += [each] if each is not None else []
    return found


def _trained(
    asked: Asked, default: Cell, chosen: Row | None, same: Row | None, rows: Sequence[Row]
) -> tuple[list[Trained], int | None, float | None]:
    """Short trainings, the recommended threads, and the gain over the default: in a training where there was one, else
    in steps of the environment."""
    if asked.algo is None or chosen is None:
        base = rate_of(rows, default)
        rate = None if chosen is None else chosen.steps_per_second
        return [], None, rate / base if base and rate else None
    from steadyrl.bench.learning import candidates, fastest, train_shortly

    here = recommended([row for row in rows if row.cell.num_envs == default.num_envs])
    cells = [row.cell for row in (here, same, chosen) if row is not None]
    options = {"env_kwargs": dict(asked.env_kwargs), "max_episode_steps": asked.max_episode_steps}
    tried = candidates(default, cells, kernels.usable_cores())
    trained = train_shortly(asked.algo, asked.env, tried, asked.seconds * _TRAIN_SHARE, options)
    best, base = fastest(trained), trained[0].steps_per_second
    if best is None:
        return trained, None, None
    gain = best.steps_per_second / base if base and best.steps_per_second else None
    return trained, best.settings.threads, gain


def _fastest(trained: Sequence[Trained]) -> Cell | None:
    from steadyrl.bench.learning import fastest

    best = fastest(trained)
    return None if best is None else best.settings.cell
