"""Who evaluates an agent, and where; the evaluation environments are held between two evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym

from steadyrl.configs.run import RunSettings
from steadyrl.envs.make import EnvFactory, make_env_factory
from steadyrl.envs.types import VecEnv
from steadyrl.envs.vector import make_vec
from steadyrl.errors import UserError
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Stream
from steadyrl.training.evaluating import MAX_ENVS, Spared, run_episodes, run_vector_episodes
from steadyrl.training.evaluation import Evaluation, Watch, unwatched
from steadyrl.training.generators import global_generators_kept
from steadyrl.training.opened import EnvLike
from steadyrl.training.policies import require_playable
from steadyrl.training.taking_along import settings_along
from steadyrl.training.wrapped import around_singles

if TYPE_CHECKING:
    from steadyrl.training.agent import Agent


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
                if self._may_remember():
                    self.close()
                spared = None if self._source.is_instance else Spared(self._spared, self._another)
                envs = self._environments()
                require_playable(policy, envs[0].observation_space, envs[0].action_space, self._source.id)
                return run_episodes(policy, envs, self._seeds, stream, watch, spared)
            spec = self._source.spec
            require_playable(policy, spec.obs_space, spec.action_space, spec.id)
            return run_vector_episodes(policy, self._source, self._seeds, stream, watch)

    def _may_remember(self) -> bool:
        """Whether wrappers by name may hold something from one evaluation to the next, which a resumed run lacks."""
        if not isinstance(self._source, EnvFactory) or self._source.is_instance or self._source.wrapping is None:
            return False
        return bool(self._source.wrapping.settings.wrappers)

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


def eval_source(agent: Agent, env: EnvLike | None) -> EnvFactory | VecEnv | None:
    """Where the agent is evaluated: in `env`, else in environments like its own, else nowhere.

    Raises:
        UserError: `env` cannot be made, or is the environment that the agent is trained in.
    """
    own = agent.setup.instance if agent.setup else None
    if own is not None and isinstance(env, gym.Env | gym.vector.VectorEnv) and env.unwrapped is own.unwrapped:
        raise UserError(
            "The environment to evaluate in is the one that the agent is trained in, which evaluation would disturb.",
            remedy="Pass another one, or an id or a function that makes one.",
            code="env-instance",
        )
    if isinstance(env, gym.vector.VectorEnv):
        return make_vec(env, masks="on" if agent.policy.masked else "off", obs_spec=agent.policy.obs_spec)
    if env is not None:
        # How its own environments are stepped tells whether single ones are wrapped by default.
        before = agent.setup.settings if agent.setup else None
        settings = settings_along(agent.bundle().about, env, before.vec if before else "auto")
        singles = make_env_factory(
            env,
            env_kwargs=settings.env_kwargs,
            max_episode_steps=settings.max_episode_steps,
            wrappers=around_singles(settings),
        )
        singles.action_masks = agent.policy.masked or (before is not None and before.action_masks == "auto")
        return singles
    factory = agent.env_factory
    return factory.remake() if factory is not None and factory.can_remake else None


def spared_failures(settings: RunSettings) -> frozenset[str]:
    """Codes of the failures that leave an evaluation episode out instead of ending the run."""
    restarts, skips = settings.on_env_error == "restart", settings.on_nonfinite == "skip"
    return frozenset(["env-error"] * restarts + ["env-nonfinite"] * skips)
