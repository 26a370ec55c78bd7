"""Single environments put together by Gymnasium's own vectors, held against others that are stepped one by one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from steadyrl.checker.probe.driver import Broken
from steadyrl.checker.probe.masks import method_of
from steadyrl.checker.probe.stage import Stage
from steadyrl.checker.probe.vector_probe import VectorProbe
from steadyrl.checker.probe.vectors import Vectors

_STEPS, _COUNT = 60, 3
_BUDGET_S = 1.5  # CPU seconds after which no other way is begun
_MODES = {mode.value: mode for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)}


@dataclass
class Batched:
    """What came of it.

    Attributes:
        seen: How they were put together -> what was seen.
    """

    seen: dict[str, Vectors] = field(default_factory=dict)


def batched(stage: Stage) -> Batched | None:
    """Step them in each autoreset mode, and once in processes; None where a space has parts of
    other kinds than numbers."""
    try:
        driver = stage.drive()
    except Broken:
        return None
    asks = callable(method_of(driver.env))
    driver.close()
    if not all(_plain(space) for space in (driver.env.observation_space, driver.env.action_space)):
        return None
    few = replace(stage, plan=replace(stage.plan, vector_steps=min(_STEPS, stage.plan.vector_steps)))
    make = partial(stage.maker, None)
    ways: dict[str, Callable[[int], VectorEnv[Any, Any, Any]]] = {
        f"SyncVectorEnv, {name}": partial(_sync, make, mode) for name, mode in _MODES.items()
    }
    ways["AsyncVectorEnv"] = partial(_in_processes, make)
    found, start = Batched(), time.process_time()
    for name, way in ways.items():
        if time.process_time() - start < _BUDGET_S:
            found.seen[name] = VectorProbe(few, way, native=False, count=_COUNT, asks=asks).run()
    return found


def _plain(space: gym.Space[Any]) -> bool:
    if isinstance(space, spaces.Dict):
        return all(map(_plain, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return all(map(_plain, space.spaces))
    return isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary)


def _sync(make: Callable[[], Any], mode: AutoresetMode, count: int) -> VectorEnv[Any, Any, Any]:
    return SyncVectorEnv([make] * count, autoreset_mode=mode)


def _in_processes(make: Callable[[], Any], count: int) -> VectorEnv[Any, Any, Any]:
    return AsyncVectorEnv([make] * count, shared_memory=False, context="fork")
