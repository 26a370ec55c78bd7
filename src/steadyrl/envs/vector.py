"""Vector environments of every backend behind one interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import gymnasium as gym
from gymnasium.envs.registration import registry
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from steadyrl.envs.adapter import VectorAdapter
from steadyrl.envs.alike import insist_on_alike, insist_on_supported
from steadyrl.envs.envpool import PREFIX, Pool, PoolVectorEnv, same_kind
from steadyrl.envs.make import EnvFactory, EnvLike, is_whole, make_env_factory, quiet_gymnasium
from steadyrl.envs.masks import Wanted
from steadyrl.envs.nonfinite import Skipping
from steadyrl.envs.outputs import insist_on_vector
from steadyrl.envs.restart import Restarts
from steadyrl.envs.serial import SerialVectorEnv
from steadyrl.envs.sources import time_limit
from steadyrl.envs.types import EnvSpec
from steadyrl.envs.workers.vector import WorkerVectorEnv
from steadyrl.envs.wrappers import Canonical
from steadyrl.errors import Ending, UserError
from steadyrl.spaces import ObsSpec

__all__ = ["Vec", "VectorAdapter", "make_vec"]

Vec = Literal["auto", "sync", "async", "envpool", "native"]


def make_vec(
    env: EnvLike | EnvFactory | VectorEnv[Any, Any, Any],
    num_envs: int | None = None,
    *,
    vec: Vec = "auto",
    env_kwargs: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    skipping: Skipping | None = None,
    num_workers: int | None = None,
    env_timeout: float = 60.0,
    restarts: Restarts | None = None,
    obs_spec: ObsSpec | None = None,
    masks: Wanted = "off",
) -> VectorAdapter:
    """Make N environments that are stepped together.

    Args:
        env: What `make_env_factory` takes, or a Gymnasium vector environment, which is used as it is with its own N.
        num_envs: N; 1 by default.
        vec: `sync` steps them one after the other in this process, `async` each in its own process with the same
            results; `envpool` uses EnvPool's environment of that name and `native` the vector environment that is
            registered for the id, and either draws other random numbers. `auto` is `sync` here; a training chooses
            for itself (`steadyrl.envs.choice`).
        env_kwargs: Arguments of the environment.
        max_episode_steps: Truncates episodes after this many steps instead of the environment's own limit.
        skipping: See `VectorAdapter`.
        num_workers: Processes of `async`; None is one for each usable core.
        env_timeout: Seconds that an environment of `async` may take for a step or reset before it counts as hanging.
        restarts: How an environment whose code fails is started anew; None lets the error through.
        obs_spec: How observations are stored, where that was decided; None reads the observation space.
        masks: Whether action masks are used; see `VectorAdapter`.

    Raises:
        UserError: it cannot be made like this.
        RunFailedError: an environment's process failed.
    """
    if vec not in get_args(Vec):
        raise UserError(f"vec is '{vec}'.", remedy=f"It is one of {', '.join(get_args(Vec))}.", code="vec")
    if num_envs is not None and not (is_whole(num_envs) and num_envs >= 1):
        raise UserError(f"num_envs is {num_envs!r}.", remedy="It has to be a whole number from 1 on.", code="num-envs")
    if num_workers is not None and vec != "async":
        raise UserError(
            f"num_workers is {num_workers}, but vec='{vec}' has no workers.",
            remedy="Use vec='async', or leave num_workers out.",
            code="num-workers",
        )
    if isinstance(env, VectorEnv):
        if restarts is not None:
            insist_on_restartable(env, vec)
        return _adapted(env, num_envs, vec, env_kwargs, max_episode_steps, obs_spec, masks)
    factory = make_env_factory(env, env_kwargs=env_kwargs, max_episode_steps=max_episode_steps)
    if factory.is_instance and ((num_envs or 1) > 1 or vec not in ("auto", "sync")):
        raise UserError(
            f"The environment instance {factory.id} cannot be used with num_envs={num_envs or 1} and vec='{vec}': "
            "it is never copied.",
            remedy="Pass its id or a function that makes it, or use num_envs=1 and vec='sync'.",
            code="env-instance",
        )
    if restarts is not None:
        insist_on_restartable(factory, vec)
    if vec == "async":
        return _async(factory, num_envs or 1, num_workers, env_timeout, skipping, restarts, obs_spec, masks)
    if vec in ("envpool", "native") and factory.wrapping is not None:
        said = ", ".join(factory.wrapping.settings.said) or "atari"
        raise UserError(
            f"Wrappers ({said}) go around single environments, but with vec='{vec}' all of {factory.id} are one "
            "program.",
            remedy="Use vec='sync' or vec='async', or leave the wrappers out.",
            code="vec",
        )
    if vec == "envpool":
        return _envpool(factory, num_envs or 1, obs_spec, masks)
    if vec == "native":
        return _native(factory, num_envs or 1, obs_spec, masks)
    return _sync(factory, num_envs or 1, skipping, restarts, obs_spec, masks)


def _sync(
    factory: EnvFactory,
    num_envs: int,
    skipping: Skipping | None,
    restarts: Restarts | None,
    obs_spec: ObsSpec | None,
    masks: Wanted,
) -> VectorAdapter:
    made: list[Canonical] = []
    try:
        for i in range(num_envs):
            made.append(factory(index=i))
            insist_on_supported(made[0].observation_space, made[0].action_space, obs_spec)
            insist_on_alike(made, factory.id)
    except BaseException:
        if not factory.is_instance:
            for env in made:
                env.close()
        raise
    source = factory if restarts is None else factory.remake()
    vector = SerialVectorEnv(made, lambda i: source(index=i), restarts)
    spec = _spec(factory, made[0], "sync")
    return VectorAdapter(
        vector, spec, seeds_each=True, skipping=skipping, restarts=restarts, obs_spec=obs_spec, masks=masks
    )


def _async(
    factory: EnvFactory,
    num_envs: int,
    num_workers: int | None,
    env_timeout: float,
    skipping: Skipping | None,
    restarts: Restarts | None,
    obs_spec: ObsSpec | None,
    masks: Wanted,
) -> VectorAdapter:
    vector = WorkerVectorEnv(factory, num_envs, workers=num_workers, timeout=env_timeout, restarts=restarts)
    observation, action = vector.single_observation_space, vector.single_action_space
    try:
        insist_on_supported(observation, action, obs_spec)
        spec = EnvSpec(factory.id, observation, action, vector.max_episode_steps, "async")
        return VectorAdapter(
            vector, spec, seeds_each=True, skipping=skipping, restarts=restarts, obs_spec=obs_spec, masks=masks
        )
    except BaseException:
        vector.close()
        raise


def _envpool(factory: EnvFactory, num_envs: int, known: ObsSpec | None, masks: Wanted) -> VectorAdapter:
    task = factory.pool_task or (factory.registered.id if factory.registered else factory.id)
    pool = Pool(task, factory.env_kwargs)
    if factory.pool_task:
        obs_space, action_space = pool.observation_space, pool.action_space
        limit = factory.max_episode_steps or pool.max_episode_steps
    else:
        probe = factory()
        obs_space, action_space, limit = probe.observation_space, probe.action_space, time_limit(probe)
        probe.close()
        if not (same_kind(pool.observation_space, obs_space) and same_kind(pool.action_space, action_space)):
            raise UserError(
                f"EnvPool's {task} is another environment than Gymnasium's: it has observations "
                f"{pool.observation_space} and actions {pool.action_space} instead of {obs_space} and {action_space}.",
                remedy=f"{PREFIX}:{task} trains and evaluates in EnvPool's; vec='sync' or 'async' in Gymnasium's.",
                code="vec-envpool",
            )
    vector = PoolVectorEnv(pool, num_envs, limit, obs_space, action_space)
    spec = EnvSpec(factory.id, obs_space, action_space, limit, "envpool")
    return VectorAdapter(vector, spec, seeds_each=True, obs_spec=known, masks=masks)


def _native(factory: EnvFactory, num_envs: int, known: ObsSpec | None, masks: Wanted) -> VectorAdapter:
    registered = factory.registered
    if registered is None or registered.vector_entry_point is None:
        having = sorted(spec.id for spec in registry.values() if spec.vector_entry_point is not None)
        raise UserError(
            f"No native vector environment is registered for {factory.id}.",
            remedy=f"Use vec='sync' or vec='async'; these ids have one: {', '.join(having)}.",
            code="vec-native",
        )
    kwargs = dict(factory.env_kwargs)
    if factory.max_episode_steps is not None:
        kwargs["max_episode_steps"] = factory.max_episode_steps
    with quiet_gymnasium():
        try:
            vector = gym.make_vec(registered, num_envs, vectorization_mode="vector_entry_point", **kwargs)
        except (KeyboardInterrupt, Ending):
            raise
        except BaseException as error:
            raise factory.not_made(error) from error
    spec = EnvSpec(
        factory.id,
        vector.single_observation_space,
        vector.single_action_space,
        factory.spec.max_episode_steps,
        "native",
    )
    if registered.entry_point is not None:
        probe = factory()
        probe.close()
        if not (
            same_kind(spec.obs_space, probe.observation_space) and same_kind(spec.action_space, probe.action_space)
        ):
            vector.close()
            raise UserError(
                f"The native vector environment of {factory.id} is another one than the single environment: it has "
                f"observations {spec.obs_space} and actions {spec.action_space} instead of {probe.observation_space} "
                f"and {probe.action_space}.",
                remedy="Use vec='sync' or vec='async'.",
                code="vec-native",
            )
    return VectorAdapter(vector, spec, seeds_each=False, obs_spec=known, masks=masks)


def _adapted(
    env: VectorEnv[Any, Any, Any],
    num_envs: int | None,
    vec: Vec,
    env_kwargs: Mapping[str, Any] | None,
    max_episode_steps: int | None,
    obs_spec: ObsSpec | None,
    masks: Wanted,
) -> VectorAdapter:
    name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    insist_on_vector(env, name)
    if num_envs not in (None, env.num_envs):
        raise UserError(
            f"num_envs is {num_envs}, but the vector environment {name} has {env.num_envs}.",
            remedy="Leave num_envs out: a vector environment brings its own.",
            code="num-envs",
        )
    if vec != "auto" or env_kwargs or max_episode_steps:
        raise UserError(
            f"The vector environment {name} is already made: vec, env_kwargs and max_episode_steps cannot change it.",
            remedy="Leave them out, or pass the id instead.",
            code="vec",
        )
    base = env.unwrapped
    seeds_each = isinstance(base, SyncVectorEnv | AsyncVectorEnv)
    backend = "async" if isinstance(base, AsyncVectorEnv) else "sync" if seeds_each else "native"
    limit = env.spec.max_episode_steps if env.spec is not None else None
    if limit is None and isinstance(base, SyncVectorEnv):
        limit = time_limit(base.envs[0])
    spec = EnvSpec(name, env.single_observation_space, env.single_action_space, limit, backend)
    return VectorAdapter(env, spec, seeds_each=seeds_each, obs_spec=obs_spec, masks=masks)


def _spec(factory: EnvFactory, env: gym.Env[Any, Any], backend: str) -> EnvSpec:
    return EnvSpec(factory.id, env.observation_space, env.action_space, time_limit(env), backend)


def insist_on_restartable(source: EnvFactory | VectorEnv[Any, Any, Any], vec: Vec) -> None:
    """Raise UserError for environments that cannot be started anew one by one."""
    if isinstance(source, VectorEnv):
        why, remedy = "A vector environment makes its environments itself", "Pass an id or a function that makes one."
    elif not source.can_remake:
        why, remedy = f"The environment instance {source.id} does not say how it was made", "Pass a function."
    elif vec in ("envpool", "native"):
        why, remedy = f"With vec='{vec}' the environments are one program", "Use vec='sync' or vec='async'."
    else:
        return
    raise UserError(
        f"{why}, so on_env_error='restart' cannot start one of them anew.",
        remedy=f"{remedy} Or use on_env_error='stop' (--on-env-error stop).",
        code="no-restarts",
    )
