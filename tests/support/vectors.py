"""What a plain loop over single environments sees, and the same rows as a vector environment hands them out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from steadyrl.envs.adapter import VectorAdapter
from steadyrl.envs.types import EpisodeRecord
from support.envs import Ending, Scripted


class Row(NamedTuple):
    """One real transition of one environment."""

    obs: tuple[float, ...]
    action: int
    reward: float
    final_obs: tuple[float, ...]
    terminated: bool
    truncated: bool


# Return, length, terminated, truncated, success, seed.
Episode = tuple[float, int, bool, bool, bool | None, int | None]


def action_of(env_index: int, step: int) -> int:
    """The action in the `step`-th real step of an environment: the same whatever autoreset does."""
    return (7 * step + env_index) % 3


def oracle(script: Sequence[Ending], env_index: int, seed: int, steps: int) -> tuple[list[Row], list[Episode]]:
    """The transitions and the episodes of a loop over one environment, seeded once."""
    return oracle_of(Scripted(script), env_index, seed, steps)


def oracle_of(env: gym.Env[Any, Any], env_index: int, seed: int, steps: int) -> tuple[list[Row], list[Episode]]:
    """The same for any environment with vector observations and a discrete action."""
    rows: list[Row] = []
    episodes: list[Episode] = []
    total, length = 0.0, 0
    episode_seed: int | None = seed
    obs, _ = env.reset(seed=seed)
    before = _plain(obs)
    for k in range(steps):
        action = action_of(env_index, k)
        obs, reward, terminated, truncated, info = env.step(np.int64(action))
        after = _plain(obs)
        rows.append(Row(before, action, float(reward), after, bool(terminated), bool(truncated)))
        total += float(reward)
        length += 1
        before = after
        if terminated or truncated:
            episodes.append((total, length, bool(terminated), bool(truncated), info.get("is_success"), episode_seed))
            total, length, episode_seed = 0.0, 0, None
            before = _plain(env.reset()[0])
    return rows, episodes


def collect(
    envs: VectorAdapter, seeds: list[int], steps: int, *, check: Callable[[Any], None] | None = None
) -> tuple[list[list[Row]], list[list[EpisodeRecord]]]:
    """The first `steps` real transitions of each environment, and the episodes that ended in them."""
    n = envs.num_envs
    rows: list[list[Row]] = [[] for _ in range(n)]
    episodes: list[list[EpisodeRecord]] = [[] for _ in range(n)]
    obs = envs.reset(seeds)
    while min(len(r) for r in rows) < steps:
        taken = np.array([action_of(i, len(rows[i])) for i in range(n)])
        live = envs.live.copy()
        step = envs.step(taken)
        assert (step.valid == live).all()
        for record in step.episodes:
            if len(rows[record.env_index]) < steps:
                episodes[record.env_index].append(record)
        for i in np.flatnonzero(step.valid):
            rows[i].append(
                Row(
                    _plain(obs[""][i]),
                    int(taken[i]),
                    float(step.rewards[i]),
                    _plain(step.final_obs[""][i]),
                    bool(step.terminated[i]),
                    bool(step.truncated[i]),
                )
            )
        if check is not None:
            check(step)
        obs = step.obs
    return [r[:steps] for r in rows], episodes


def _plain(obs: Any) -> tuple[float, ...]:
    return tuple(round(float(x), 4) for x in np.asarray(obs, dtype=np.float32))
