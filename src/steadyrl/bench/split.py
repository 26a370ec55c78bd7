"""Where the time of a step goes: the environment, what this library does around it, and what Gymnasium's vectors do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any

import gymnasium as gym
import numpy.typing as npt
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from steadyrl.bench.rows import Cell
from steadyrl.bench.sweep import open_cell
from steadyrl.envs.allowed import BareMasks, GymnasiumsMasks
from steadyrl.envs.make import EnvFactory
from steadyrl.envs.timing import SEED, Timed, in_turns, undisturbed
from steadyrl.envs.types import BoolArray

_ROUNDS = 7


@dataclass(frozen=True)
class Beside:
    """A step of one environment, in microseconds, of N stepped together.

    Attributes:
        num_envs: N.
        env_us: The environment alone, in a plain loop.
        gymnasium_us: In Gymnasium's own vector of the same backend, with its autoreset in the same step.
        ours_us: In this library's.
    """

    backend: str
    num_envs: int
    env_us: float
    gymnasium_us: float
    ours_us: float

    @property
    def overhead(self) -> float:
        """What ours takes beyond Gymnasium's, as a share of it; negative where it is faster."""
        return self.ours_us / self.gymnasium_us - 1.0

    def to_json(self) -> dict[str, Any]:
        """As `steadyrl bench --json` has it."""
        return {
            "backend": self.backend,
            "num_envs": self.num_envs,
            "environment_us": self.env_us,
            "gymnasium_us": self.gymnasium_us,
            "steadyrl_us": self.ours_us,
            "overhead_over_gymnasium": self.overhead,
        }


class Bare:
    """N environments in a plain loop, without anything around them.

    Args:
        envs: The environments.
    """

    def __init__(self, envs: list[gym.Env[Any, Any]]) -> None:
        self.envs = envs
        self.num_envs = len(envs)
        self.infos = [env.reset(seed=SEED + i)[1] for i, env in enumerate(envs)]

    def step(self, actions: npt.NDArray[Any]) -> None:
        """Step every environment, and start those anew whose episode ended."""
        for env, action in zip(self.envs, actions, strict=True):
            *_, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    def close(self) -> None:
        """Close every environment."""
        for env in self.envs:
            env.close()


class MaskedBare(Bare):
    """The same for environments that give action masks, of which it takes note."""

    def __init__(self, envs: list[gym.Env[Any, Any]]) -> None:
        super().__init__(envs)
        self._masks = BareMasks(envs)

    def step(self, actions: npt.NDArray[Any]) -> None:
        """Step every environment, and start those anew whose episode ended."""
        for i, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
            *_, terminated, truncated, info = env.step(action)
            self.infos[i] = env.reset()[1] if terminated or truncated else info

    def allowed(self) -> BoolArray:
        """[N, width]."""
        return self._masks.of(self.infos)


def beside(factory: EnvFactory, cell: Cell, seconds: float, *, busy: float = 0.0) -> Beside | None:
    """Time ours, Gymnasium's and the plain loop in turns; None where Gymnasium's cannot step this environment.

    Where all is done in this process, and done by the CPU, its time is taken, which other programs do not disturb.

    Args:
        factory: Makes the environments.
        cell: Sync or async.
        seconds: For all three together.
        busy: Which share of a step of the environment the CPU works.
    """
    with undisturbed(), ExitStack() as stack, suppress(Exception):
        ours = open_cell(factory, cell)
        stack.callback(ours.close)
        ours.reset(list(range(SEED, SEED + cell.num_envs)))
        theirs = _gymnasium(factory, cell)
        stack.callback(theirs.close)
        _, infos = theirs.reset(seed=SEED)
        alone = [bare_env(factory) for _ in range(cell.num_envs)]
        bare = Bare(alone) if ours.allowed is None else MaskedBare(alone)
        stack.callback(bare.close)
        space = ours.spec.action_space
        clock = process_time if cell.backend == "sync" and busy == 1.0 else None
        if isinstance(bare, MaskedBare):
            kept = GymnasiumsMasks(theirs, infos)
            each_masks = (ours, ours.allowed), (kept, kept.now), (bare, bare.allowed)
            timed = [Timed(envs, space, clock, masks) for envs, masks in each_masks]
        else:
            timed = [Timed(each, space, clock) for each in (ours, theirs, bare)]
        for each in timed:
            each.turn(0.0)
            each.rates.clear()
        in_turns(timed, seconds, _ROUNDS)
        us = [1e6 / each.rate for each in timed]
        return Beside(cell.backend, cell.num_envs, env_us=us[2], gymnasium_us=us[1], ours_us=us[0])
    return None


def bare_env(factory: EnvFactory) -> gym.Env[Any, Any]:
    """The environment with none of this library's wrappers."""
    env: gym.Env[Any, Any] = factory().env
    return env


def _gymnasium(factory: EnvFactory, cell: Cell) -> SyncVectorEnv | AsyncVectorEnv:
    makers: list[Callable[[], gym.Env[Any, Any]]] = [partial(bare_env, factory)] * cell.num_envs
    if cell.backend == "sync":
        return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    return AsyncVectorEnv(makers, context="forkserver", autoreset_mode=AutoresetMode.SAME_STEP)
