"""EnvPool's environments, which C++ threads step: an extra of its own, with other trajectories than Gymnasium's.

What EnvPool 1.2.5 does, tried: its vector environment declares NEXT_STEP and keeps to it (the row after an episode's
end is made up); each environment draws from its own seed, fixed when the pool is made, whatever the number of threads;
`reset(seed=...)` is ignored; a step that terminates just at the limit on an episode is told as truncated alone; rows
come in the order of the environments. So here a pool is made anew for each seeding, its limit is one step later than
the one that is kept, and ended environments are reset at once (SAME_STEP): no row is made up and no flag lost.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec as GymSpec
from gymnasium.vector import AutoresetMode, VectorEnv

from steadyrl.cores import usable_cores
from steadyrl.envs.types import BoolArray, FloatArray
from steadyrl.errors import UserError, install, nearest, words

Stepped = tuple[Any, FloatArray, BoolArray, BoolArray, dict[str, Any]]
PREFIX = "envpool"  # `envpool:Pong-v5` is EnvPool's own environment of that name
_INT32_MAX = 2**31 - 1  # EnvPool counts steps and seeds in int32
_OWN = {"num_envs", "batch_size", "num_threads", "seed", "env_seed", "max_episode_steps", "max_num_players"}


class Pool:
    """One of EnvPool's environments, as often as wanted.

    Attributes:
        observation_space: Of one environment; bounds that only say 'a float' are infinite.
        action_space: Of one environment.

    Args:
        task: EnvPool's name of it.
        kwargs: Its arguments.

    Raises:
        UserError: EnvPool is not installed, has no such environment, or an argument is wrong.
    """

    def __init__(self, task: str, kwargs: Mapping[str, Any]) -> None:
        self.task = task
        self.kwargs = dict(kwargs)
        self._module = load_envpool(task)
        if task not in self._module.list_all_envs():
            raise unknown_task(task)
        try:
            with _quiet():
                self._spec = self._module.make_spec(task, **self.kwargs)
                self.observation_space = _mended(self._spec.gymnasium_observation_space)
                self.action_space: gym.Space[Any] = self._spec.gymnasium_action_space
        except (TypeError, AssertionError, ValueError) as error:
            known = sorted(set(self._module.make_spec(task)._config_keys) - _OWN)
            wrong = next((key for key in self.kwargs if key not in known), "")
            raise UserError(
                f"The arguments of EnvPool's {task} are wrong: {words(error)}",
                remedy=(nearest(wrong, known) if wrong else "") or f"It takes {', '.join(known)} (env_kwargs).",
                code="env-kwargs",
            ) from None

    @property
    def max_episode_steps(self) -> int | None:
        """The limit that EnvPool itself has; None for none."""
        limit = int(self._spec.config.max_episode_steps)
        return limit if 0 < limit < _INT32_MAX else None

    def open(self, num_envs: int, seeds: list[int], limit: int | None) -> Any:
        """EnvPool's vector environment, which ends an episode one step after `limit` at the earliest.

        Args:
            num_envs: N.
            seeds: One an environment, [N].
            limit: Steps of an episode; None for no limit.
        """
        with _quiet():
            envs = self._module.make_gymnasium(
                self.task,
                num_envs=num_envs,
                num_threads=min(num_envs, usable_cores()),
                seed=[seed % _INT32_MAX for seed in seeds],
                max_episode_steps=_INT32_MAX if limit is None else min(limit + 1, _INT32_MAX),
                **self.kwargs,
            )
            envs.observation_space  # noqa: B018  # made when first asked for, and then kept
        return envs


class PoolVectorEnv(VectorEnv[Any, Any, Any]):
    """EnvPool's environments with SAME_STEP autoreset, seeded by `reset`.

    Args:
        pool: What is stepped.
        num_envs: N.
        limit: Steps after which an episode is truncated; None for no limit.
        observation_space: Of one environment, where it should be declared otherwise than by EnvPool.
        action_space: The same for its actions.
    """

    def __init__(
        self,
        pool: Pool,
        num_envs: int,
        limit: int | None,
        observation_space: gym.Space[Any] | None = None,
        action_space: gym.Space[Any] | None = None,
    ) -> None:
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = observation_space or pool.observation_space
        self.single_action_space = action_space or pool.action_space
        self._pool = pool
        self._limit = limit
        self._envs: Any = None
        self._lengths = np.zeros(num_envs, dtype=np.int64)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start every environment with its own seed, [N]; without, each draws on."""
        if seed is not None or self._envs is None:
            self._envs = None  # its threads end before others begin
            self._envs = self._pool.open(
                self.num_envs, list(range(self.num_envs)) if seed is None else seed, self._limit
            )
        self._lengths[:] = 0
        obs, info = self._envs.reset()
        return _in_order(obs, info), {}

    def step(self, actions: npt.NDArray[Any]) -> Stepped:
        """Step every environment with its own action, [N, ...], and start those anew whose episode ended."""
        obs, rewards, terminated, truncated, info = self._envs.step(np.asarray(actions))
        order = np.argsort(info["env_id"], kind="stable")
        obs = _map(lambda leaf: leaf[order], obs)
        rewards, terminated, truncated = rewards[order], terminated[order], truncated[order]
        self._lengths += 1
        if self._limit is not None:
            truncated = truncated | (self._lengths >= self._limit)
        (rows,) = (terminated | truncated).nonzero()
        if not len(rows):
            return obs, rewards, terminated, truncated, {}
        self._lengths[rows] = 0
        started, told = self._envs.reset(rows.astype(np.int32))
        fresh = _in_order(started, told)
        replaced = _map(lambda leaf, new: _replaced(leaf, rows, new), obs, fresh)
        return replaced, rewards, terminated, truncated, {"final_obs": obs}

    def close_extras(self, **kwargs: Any) -> None:
        """Let EnvPool end its threads."""
        self._envs = None


class PoolEnv(gym.Env[Any, Any]):
    """One environment of EnvPool's as a Gymnasium environment, for evaluation and for looking at it."""

    def __init__(self, pool: Pool) -> None:
        self.observation_space = pool.observation_space
        self.action_space = pool.action_space
        self.metadata = {"render_modes": []}
        self._pool = pool
        self._envs: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; a seed makes the pool anew, as EnvPool fixes seeds then."""
        super().reset(seed=seed)
        if seed is not None or self._envs is None:
            self._envs = self._pool.open(1, [0 if seed is None else seed], None)
        return _map(lambda leaf: leaf[0], self._envs.reset()[0]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step."""
        obs, rewards, terminated, truncated, _ = self._envs.step(np.asarray(action)[None])
        return _map(lambda leaf: leaf[0], obs), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def close(self) -> None:
        """Let EnvPool end its thread."""
        self._envs = None


class FromEnvPool:
    """`envpool:NAME`: an environment that EnvPool has, whether Gymnasium has one of that name or not."""

    spec: GymSpec | None = None

    def __init__(self, task: str) -> None:
        self.task = task
        self.id = f"{PREFIX}:{task}"
        Pool(task, {})

    def check(self, kwargs: Mapping[str, Any]) -> None:
        """Raise UserError where these arguments cannot fit."""
        Pool(self.task, kwargs)

    def make(self, kwargs: Mapping[str, Any], max_episode_steps: int | None) -> gym.Env[Any, Any]:
        """Make one."""
        pool = Pool(self.task, {key: value for key, value in kwargs.items() if key != "render_mode"})
        limit = max_episode_steps or pool.max_episode_steps
        env = PoolEnv(pool)
        return env if limit is None else gym.wrappers.TimeLimit(env, limit)


def installed() -> bool:
    """Whether the package is there."""
    return importlib.util.find_spec("envpool") is not None


def load_envpool(name: str) -> Any:
    """The package.

    Raises:
        UserError: it is not installed, or cannot be imported.
    """
    if not installed():
        raise UserError(
            f"{name} cannot be stepped by EnvPool, which is not installed.",
            remedy=f"Install it: {install('envpool')}.",
            code="missing-package",
        )
    try:
        return importlib.import_module("envpool")
    except Exception as error:
        raise UserError(
            f"EnvPool is installed but cannot be imported: {type(error).__name__}: {words(error)}",
            remedy="Install another version of it, or use another vec.",
            code="missing-package",
        ) from error


def unknown_task(task: str) -> UserError:
    """The error for a name that EnvPool does not have."""
    base = task.rpartition("/")[2].rpartition(":")[2]
    known: list[str] = load_envpool(task).list_all_envs()
    hint = f"It has an environment {base} of its own: {PREFIX}:{base}." if base in known else nearest(base, known)
    return UserError(
        f"EnvPool has no environment '{task}'.",
        remedy=" ".join(filter(None, [hint, "vec='sync' and vec='async' take any environment."])),
        code="vec-envpool",
    )


def same_kind(own: gym.Space[Any], other: gym.Space[Any]) -> bool:
    """Whether two spaces hold the same values but for their bounds and the size of their numbers."""
    if isinstance(own, spaces.Box) and isinstance(other, spaces.Box):
        return own.shape == other.shape and own.dtype.kind == other.dtype.kind
    if isinstance(own, spaces.Discrete) and isinstance(other, spaces.Discrete):
        return (own.n, own.start) == (other.n, other.start)
    return own == other


@contextmanager
def _quiet() -> Iterator[None]:
    """EnvPool makes spaces that Gymnasium warns of, which nobody here can change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _mended(space: gym.Space[Any]) -> gym.Space[Any]:
    """EnvPool declares some unbounded floats as from the smallest positive to the largest number there is."""
    if not isinstance(space, spaces.Box) or space.dtype.kind != "f":
        return space
    limits = np.finfo(space.dtype)
    low = np.where(space.low == limits.tiny, -np.inf, space.low)
    high = np.where(space.high == limits.max, np.inf, space.high)
    return spaces.Box(low.astype(space.dtype), high.astype(space.dtype), space.shape, space.dtype.type)


def _in_order(obs: Any, info: dict[str, Any]) -> Any:
    order = np.argsort(info["env_id"], kind="stable")
    return _map(lambda leaf: leaf[order], obs)


def _map(function: Callable[..., Any], *trees: Any) -> Any:
    """`function` on each array of observations, which may be dictionaries of them."""
    if isinstance(trees[0], dict):
        return {key: _map(function, *(tree[key] for tree in trees)) for key in trees[0]}
    return function(*trees)


def _replaced(leaf: npt.NDArray[Any], rows: npt.NDArray[np.intp], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    copy = leaf.copy()
    copy[rows] = values
    return copy
