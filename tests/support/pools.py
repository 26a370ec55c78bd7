"""A stand-in for the package envpool that behaves as its version 1.2.5 was seen to."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

FALLS = 7  # the step at which an episode of `Fall-v0` terminates


class FakePool:
    """Counts steps: the observation is [seed, episode, step]; terminates at step `FALLS`; rows come in any order.

    NEXT_STEP autoreset; at its own limit an episode is told as truncated alone, even where it terminates too.
    """

    made: list[FakePool] = []  # noqa: RUF012

    def __init__(self, spaces_: SimpleNamespace, num_envs: int, seed: list[int], max_episode_steps: int, **rest: Any):
        self.observation_space = spaces_.gymnasium_observation_space
        self.options = rest
        self.limit = max_episode_steps
        self.seeds = np.array(seed)
        self.episode = np.full(num_envs, -1)
        self.t = np.zeros(num_envs, dtype=int)
        self.falls = np.full(num_envs, FALLS)
        self.pending = np.zeros(num_envs, dtype=bool)
        self.resets: list[list[int]] = []
        FakePool.made.append(self)

    def reset(self, env_id: npt.NDArray[Any] | None = None) -> tuple[Any, dict[str, Any]]:
        rows = np.arange(len(self.t)) if env_id is None else np.asarray(env_id)
        self.resets.append([int(i) for i in rows])
        self._start(rows)
        return self._obs(rows[::-1]), {"env_id": rows[::-1].astype(np.int32)}

    def step(self, actions: npt.NDArray[Any]) -> tuple[Any, ...]:
        fresh = self.pending.copy()
        self._start(np.flatnonzero(fresh))
        self.t[~fresh] += 1
        cut = ~fresh & (self.t >= self.limit)
        ended = ~fresh & (self.t >= self.falls)
        self.pending = cut | ended
        order = np.arange(len(self.t))[::-1]
        rewards = np.where(fresh, 0.0, 1.0 + np.ravel(actions)).astype(np.float32)
        info = {"env_id": order.astype(np.int32)}
        return self._obs(order), rewards[order], (ended & ~cut)[order], cut[order], info

    def _start(self, rows: npt.NDArray[Any]) -> None:
        self.episode[rows] += 1
        self.t[rows] = 0
        self.pending[rows] = False

    def _obs(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.stack([self.seeds[rows], self.episode[rows], self.t[rows]], axis=1).astype(np.float32)


def fake_envpool() -> ModuleType:
    """The module: `Fall-v0`, `CartPole-v1` (of other spaces than Gymnasium's) and `Pong-v5`."""
    module = ModuleType("envpool")
    tiny, most = np.finfo(np.float32).tiny, np.finfo(np.float32).max

    def make_spec(task: str, **kwargs: Any) -> SimpleNamespace:
        if set(kwargs) - {"gravity"}:
            raise TypeError(f"got an unexpected keyword argument {next(iter(kwargs))!r}")
        return SimpleNamespace(
            gymnasium_observation_space=spaces.Box(tiny, most, (3,), np.float32),
            gymnasium_action_space=spaces.Discrete(2),
            config=SimpleNamespace(max_episode_steps=5),
            _config_keys=["num_envs", "seed", "gravity"],
        )

    def make_gymnasium(task: str, **kwargs: Any) -> FakePool:
        return FakePool(make_spec(task), **kwargs)

    module.list_all_envs = lambda: ["Fall-v0", "CartPole-v1", "Pong-v5"]  # type: ignore[attr-defined]
    module.make_spec = make_spec  # type: ignore[attr-defined]
    module.make_gymnasium = make_gymnasium  # type: ignore[attr-defined]
    return module
