"""Who evaluates a run: holds the evaluation environments between two evaluations."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from steadyrl.envs.make import EnvFactory
from steadyrl.envs.types import VecEnv
from steadyrl.errors import UserError
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Stream
from steadyrl.training.evaluation import (
    MAX_ENVS,
    Evaluation,
    Spared,
    Watch,
    run_episodes,
    run_vector_episodes,
    unwatched,
)
from steadyrl.training.generators import global_generators_kept


class Evaluator:
    """Evaluates a policy on environments of its own.

    Args:
        source: Makes environments, or is a vector of them.
        seeds: The seed of each episode.
        spared: Codes of failures that only leave their episode out, where environments are made here.
    """

    def __init__(self, source: EnvFactory | VecEnv, seeds: list[int], spared: frozenset[str] = frozenset()) -> None:
        self._source = source
        self._seeds = seeds
        self._spared = spared
        self._envs: list[gym.Env[Any, Any]] = []

    def __call__(self, policy: Policy, stream: Stream | None = None, watch: Watch = unwatched) -> Evaluation:
        """One evaluation; deterministic unless a stream to sample with is given. `watch` as in `run_episodes`."""
        with global_generators_kept():
            if isinstance(self._source, EnvFactory):
                spared = None if self._source.is_instance else Spared(self._spared, self._another)
                return run_episodes(policy, self._environments(), self._seeds, stream, watch, spared)
            return run_vector_episodes(policy, self._source, self._seeds, stream, watch)

    def _environments(self) -> list[gym.Env[Any, Any]]:
        if not self._envs and isinstance(self._source, EnvFactory):
            number = 1 if self._source.is_instance else min(MAX_ENVS, len(self._seeds))
            for _ in range(number):
                self._envs.append(self._another())
            if len({id(env.unwrapped) for env in self._envs}) < number:
                raise UserError(
                    f"{self._source.id} returned the same environment twice.",
                    remedy="Let the function make a new environment each time it is called.",
                    code="env-instance",
                )
        return self._envs

    def _another(self) -> gym.Env[Any, Any]:
        assert isinstance(self._source, EnvFactory)
        return self._source(role="An evaluation environment")

    def close(self) -> None:
        """Close the environments that were made here; one that the user made stays open."""
        if isinstance(self._source, EnvFactory) and not self._source.is_instance:
            for env in self._envs:
                env.close()
        self._envs = []
