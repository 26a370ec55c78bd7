"""Isolated evaluation: own environments, own seeds, frozen normaliser, raw reward; training does not notice it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch

from steadyrl.envs.types import VecEnv
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Stream
from steadyrl.spaces import ObsTree
from steadyrl.stats import bootstrap_ci

MAX_ENVS = 10


@dataclass(frozen=True)
class Evaluation:
    """Raw returns and lengths of whole episodes.

    `ci95` is a percentile bootstrap interval of the mean over these episodes; it says nothing of other training seeds.
    """

    returns: npt.NDArray[np.float64]  # [episodes]
    lengths: npt.NDArray[np.int64]  # [episodes]

    @property
    def episodes(self) -> int:
        """How many."""
        return len(self.returns)

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        """Standard deviation of the returns over the episodes."""
        return float(self.returns.std())

    @property
    def ci95(self) -> tuple[float, float]:
        """95% interval of the mean."""
        return bootstrap_ci(self.returns)


Watch = Callable[[int], None]


def unwatched(length: int) -> None:
    """Nobody looks."""


def run_episodes(
    policy: Policy,
    envs: Sequence[gym.Env[Any, Any]],
    seeds: Sequence[int],
    stream: Stream | None = None,
    watch: Watch = unwatched,
) -> Evaluation:
    """One episode a seed; environment j plays the episodes j, j + M, j + 2 M, ..., so short episodes are not favoured.

    Args:
        policy: Acts; the most likely actions unless a stream to sample with is given.
        envs: M environments, stepped side by side.
        seeds: The seed of each episode's reset.
        stream: Randomness of a sampling policy.
        watch: Called before each step with the longest episode's length so far; what it raises ends the evaluation.
    """
    returns, lengths = np.zeros(len(seeds)), np.zeros(len(seeds), dtype=np.int64)
    playing = {j: j for j in range(min(len(envs), len(seeds)))}  # environment -> its episode
    obs: dict[int, ObsTree] = {}
    for j, episode in playing.items():
        obs[j] = policy.obs_spec.store(envs[j].reset(seed=seeds[episode])[0], batch=False)
    while playing:
        watch(int(lengths.max()))
        batch = {path: np.concatenate([obs[j][path] for j in playing]) for path in policy.obs_spec.by_path}
        actions = policy.predict(batch, stream)
        for action, (j, episode) in zip(actions, list(playing.items()), strict=True):
            new_obs, reward, terminated, truncated, _ = envs[j].step(action)
            returns[episode] += float(reward)
            lengths[episode] += 1
            if terminated or truncated:
                episode += len(envs)
                if episode >= len(seeds):
                    del playing[j]
                    continue
                playing[j] = episode
                new_obs = envs[j].reset(seed=seeds[episode])[0]
            obs[j] = policy.obs_spec.store(new_obs, batch=False)
    return Evaluation(returns, lengths)


def run_vector_episodes(
    policy: Policy, venv: VecEnv, seeds: Sequence[int], stream: Stream | None = None, watch: Watch = unwatched
) -> Evaluation:
    """As many episodes as there are seeds in a vector of environments, an equal share each.

    Only the first episode of each environment has its own seed: a vector environment draws the later ones on.
    """
    quota = np.full(venv.num_envs, len(seeds) // venv.num_envs)
    quota[: len(seeds) % venv.num_envs] += 1
    padded = [*seeds, *range(venv.num_envs)]
    obs = venv.reset(padded[: venv.num_envs])
    returns, lengths = [], []
    running = np.zeros(venv.num_envs, dtype=np.int64)
    while quota.any():
        watch(int(running.max()))
        step = venv.step(policy.predict(obs, stream))
        running += step.valid
        for episode in step.episodes:
            running[episode.env_index] = 0
            if quota[episode.env_index] > 0:
                quota[episode.env_index] -= 1
                returns.append(episode.return_)
                lengths.append(episode.length)
        obs = step.obs
    return Evaluation(np.array(returns), np.array(lengths, dtype=np.int64))


@contextmanager
def global_generators_kept() -> Iterator[None]:
    """The process-wide generators of Python, NumPy and torch are as before afterwards, whatever is drawn inside."""
    python, numpy, torch_state = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(torch_state)
