"""Short real trainings: where the time of a run goes, and which settings make it faster. Imports torch."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from steadyrl.bench.rows import Cell
from steadyrl.configs import CONFIGS, Config, OffPolicyConfig, OnPolicyConfig
from steadyrl.errors import SteadyRLError
from steadyrl.training.agents import AGENTS
from steadyrl.training.generators import global_generators_kept
from steadyrl.training.setup import prepare_training

_STARTS = 64  # transitions before an off-policy algorithm's first update, here
_UPDATES = 150  # gradient steps of a short off-policy training
_PHASES = {"env": "environment", "act": "network", "learn": "learning", "other": "other"}


@dataclass(frozen=True)
class Settings:
    """What a training is run with."""

    cell: Cell
    threads: int | None = None

    @property
    def name(self) -> str:
        """For people."""
        threads = "" if self.threads is None else f", {self.threads} thread{'s' if self.threads > 1 else ''}"
        return f"{self.cell.num_envs} x {self.cell.name}{threads}"


@dataclass(frozen=True)
class Trained:
    """Rate and phases of a short training; `reason` says why there was none."""

    settings: Settings
    steps_per_second: float | None = None
    phases: tuple[tuple[str, float], ...] = ()
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """As `steadyrl bench --json` has it."""
        return {
            "backend": self.settings.cell.backend,
            "num_envs": self.settings.cell.num_envs,
            "num_workers": self.settings.cell.num_workers,
            "threads": self.settings.threads,
            "steps_per_second": self.steps_per_second,
            "seconds": dict(self.phases),
            "reason": self.reason or None,
        }


class _Short:
    """A training in short pieces; the first one, in which losses are traced and environments start, is not counted."""

    def __init__(self, algo: str, env: Any, settings: Settings, options: dict[str, Any]) -> None:
        cell = settings.cell
        self.settings = settings
        given = {**options, "num_envs": cell.num_envs, "vec": cell.backend, "num_workers": cell.num_workers}
        given |= {"threads": settings.threads, "eval_freq": 0}
        starts = 0
        if issubclass(CONFIGS[algo], OffPolicyConfig):
            starts = -(-_STARTS // cell.num_envs) * cell.num_envs
            given |= {"learning_starts": starts, "buffer_size": max(20_000, 100 * cell.num_envs)}
        self.agent = AGENTS[algo].from_setup(prepare_training(algo, env, given))
        self.steps = _piece(self.agent.config)
        self.rates: list[float] = []
        self.agent.settle(lambda notice: None)
        self.agent.learn(starts + self.steps)
        self._spent = dict.fromkeys(_PHASES, 0.0)

    def turn(self) -> None:
        start = perf_counter()
        self.agent.learn(self.steps, schedule_steps=self.agent.num_timesteps + self.steps)
        self.rates.append(self.steps / (perf_counter() - start))
        for name, seconds in self.agent.loop.phases.seconds.items():  # of this call alone
            if name in self._spent:
                self._spent[name] += seconds

    def trained(self) -> Trained:
        spent, count = dict(self._spent), self.steps * len(self.rates)
        rate = statistics.median(self.rates)
        spent["other"] += max(count / rate - sum(spent.values()), 0.0)
        phases = tuple((_PHASES[name], seconds / count) for name, seconds in spent.items())
        return Trained(self.settings, rate, phases)


def train_shortly(
    algo: str, env: Any, tried: Sequence[Settings], seconds: float, options: dict[str, Any]
) -> list[Trained]:
    """Train with each of these settings for about so long together, in turns.

    Args:
        algo: Name of the algorithm.
        env: As `steadyrl.PPO` takes it.
        tried: The first is the one to compare with, and is always measured.
        seconds: For all together; each is measured once at least while time is left.
        options: Further settings of the run.
    """
    start = perf_counter()
    short: list[_Short] = []
    failed: list[Trained] = []
    with global_generators_kept():
        try:
            for settings in tried:
                if short and perf_counter() - start > seconds / 2:
                    failed.append(Trained(settings, reason="no time was left: give more --seconds"))
                    continue
                try:
                    short.append(_Short(algo, env, settings, options))
                except SteadyRLError as error:
                    failed.append(Trained(settings, reason=error.message))
            while short and (not short[0].rates or perf_counter() - start < seconds):
                for each in short:
                    each.turn()
        finally:
            for each in short:
                each.agent.close()
    return [*(each.trained() for each in short), *failed]


def candidates(default: Cell, recommended: Sequence[Cell], cores: int) -> list[Settings]:
    """What to train with: the default, the recommended cells, and the first of these with one thread where kernels
    would take several."""
    cells = list(dict.fromkeys([default, *recommended]))
    tried = [Settings(cell) for cell in cells]
    return [*tried, *([replace(tried[-1], threads=1)] if cores > 1 else [])]


def fastest(trained: Sequence[Trained]) -> Trained | None:
    """The fastest training; the earlier one where two are as good as equal."""
    measured = [each for each in trained if each.steps_per_second]
    best = max((each.steps_per_second or 0.0 for each in measured), default=0.0)
    return next((each for each in measured if (each.steps_per_second or 0.0) >= 0.97 * best), None)


def _piece(config: Config) -> int:
    """Environment steps of one piece: a whole rollout with its update, or some updates of an off-policy algorithm."""
    if isinstance(config, OnPolicyConfig):
        return config.n_steps * config.num_envs
    updates = config.gradient_steps if config.gradient_steps > 0 else config.train_freq
    steps = max(1, _UPDATES // updates) * config.train_freq
    return -(-steps // config.num_envs) * config.num_envs
