"""The environment that the user gave, looked at: what makes more of it, and its spaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium as gym

from steadyrl.configs.run import RunSettings
from steadyrl.envs.around import Stacking
from steadyrl.envs.make import EnvFactory, make_env_factory
from steadyrl.envs.pictures import modes_of
from steadyrl.envs.wrapping import stacking_of
from steadyrl.errors import UserError
from steadyrl.training.taking_along import counted_limit
from steadyrl.training.wrapped import around_singles, insist_on_bare

VectorEnv = gym.vector.VectorEnv[Any, Any, Any]
EnvLike = str | gym.Env[Any, Any] | Callable[..., gym.Env[Any, Any]] | VectorEnv


class Opened(NamedTuple):
    """The environment that the user gave, looked at."""

    source: EnvFactory | VectorEnv
    observation: gym.Space[Any]
    action: gym.Space[Any]
    stacking: Stacking | None  # how frames are stacked
    number: tuple[int, str] | None  # of environments in an object that was given, and what it is
    limit: int | None  # on the steps of the policy in an episode


def opened_by(env: EnvLike, settings: RunSettings) -> Opened:
    """What makes the environments, and their spaces; one is made for this, unless there is one already."""
    if isinstance(env, gym.vector.VectorEnv):
        insist_on_bare(settings)
        spaces = env.single_observation_space, env.single_action_space
        return Opened(env, *spaces, None, (env.num_envs, "a vector environment"), None)
    source = make_env_factory(
        env,
        env_kwargs=dict(settings.env_kwargs),
        max_episode_steps=settings.max_episode_steps,
        wrappers=around_singles(settings),
    )
    source.action_masks = source.masks_bind = settings.action_masks != "off"
    number = None
    if isinstance(env, gym.Env):
        number = 1, "an environment instance"
        probe: gym.Env[Any, Any] = source.around(env)
    else:
        probe = source()
        probe.close()
    source.draws = "rgb_array" in modes_of(probe)
    limit = settings.max_episode_steps or counted_limit(probe, source.wrapping.repeats if source.wrapping else 1)
    return Opened(source, probe.observation_space, probe.action_space, stacking_of(probe), number, limit)


def own_number(overrides: Mapping[str, Any], number: int, what: str) -> int:
    """The number of environments in an object that was given.

    Raises:
        UserError: `overrides` have another one.
    """
    wanted = overrides.get("num_envs")
    if wanted not in (None, number):
        raise UserError(
            f"num_envs is {wanted}, but {what} was given, which is {number}.",
            remedy="Leave num_envs out, or pass an id or a function that makes an environment.",
            code="bad-value",
        )
    return number


def name_of(env: EnvLike) -> str:
    """How errors and run folders call what was given as an environment."""
    if isinstance(env, str):
        return env
    spec = None if isinstance(env, type) else getattr(env, "spec", None)  # a wrapper's class has a property there
    if spec is not None:
        return str(spec.id)
    return getattr(env, "__name__", type(env).__name__)
