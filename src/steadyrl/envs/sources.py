"""The ways to make an environment: from an id, a file, a callable, or the one that the user made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Protocol

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec as GymSpec
from gymnasium.envs.registration import registry

from steadyrl.envs.arguments import check_arguments, takes
from steadyrl.envs.envpool import PREFIX, FromEnvPool
from steadyrl.envs.outcome import MIGRATE
from steadyrl.envs.registry import creator_of, find_spec, load_file, without_class
from steadyrl.errors import UserError


class Source(Protocol):
    """One way to make an environment, without the wrappers of this library."""

    @property
    def id(self) -> str:
        """How errors and run folders call it."""
        ...

    @property
    def spec(self) -> GymSpec | None:
        """Gymnasium's specification where there is one."""
        ...

    def check(self, kwargs: Mapping[str, Any]) -> None:
        """Raise UserError where these arguments cannot fit."""
        ...

    def make(self, kwargs: Mapping[str, Any], max_episode_steps: int | None) -> gym.Env[Any, Any]:
        """Make one."""
        ...


def source_of(env: object) -> Source:
    """The source for what the user gave.

    Raises:
        UserError: it is nothing that makes an environment, or an id or a file that does not exist.
    """
    if isinstance(env, str):
        path, _, class_name = env.rpartition(":")
        if env.endswith((".py", ".py:")):
            raise without_class(env.removesuffix(":"))
        if path.endswith(".py"):
            return FromFile(path, class_name)
        if path == PREFIX:
            return FromEnvPool(class_name)
        return Registered(find_spec(env), module=path)
    if isinstance(env, gym.Env):
        return Instance(env)
    if isinstance(env, type) and not issubclass(env, gym.Env):
        insist_on_gymnasium(env, env.__name__)
    if callable(env):
        return FromCallable(env)
    insist_on_gymnasium(env, type(env).__name__)
    raise AssertionError("unreachable: an object that is neither an environment nor callable was refused")


class Registered:
    """An id that is registered with Gymnasium; a worker gets the specification itself.

    Args:
        spec: Gymnasium's specification.
        module: What was imported to register it; it stays in the id, so that a later process finds the environment.
    """

    def __init__(self, spec: GymSpec, module: str = "") -> None:
        self._spec = spec
        self.id = f"{module}:{spec.id}" if module else spec.id
        # The specification of an environment that somebody made may have arguments and wrappers of its own.
        self.address = self.id if registry.get(spec.id) is spec else None

    @property
    def spec(self) -> GymSpec | None:
        """Gymnasium's specification where there is one."""
        return self._spec

    def check(self, kwargs: Mapping[str, Any]) -> None:
        """Raise UserError where these arguments cannot fit."""
        if self._spec.entry_point is not None:
            check_arguments(creator_of(self._spec), {**self._spec.kwargs, **kwargs}, self.id)

    def make(self, kwargs: Mapping[str, Any], max_episode_steps: int | None) -> gym.Env[Any, Any]:
        """Make one."""
        creator_of(self._spec)
        env: gym.Env[Any, Any] = gym.make(
            self._spec, max_episode_steps=max_episode_steps, disable_env_checker=True, **kwargs
        )
        return env


class FromCallable:
    """A class or function that makes an environment."""

    spec: GymSpec | None = None

    def __init__(self, creator: Callable[..., Any]) -> None:
        self._creator = creator

    @property
    def id(self) -> str:
        """How errors and run folders call it."""
        name = getattr(self._creator, "__name__", type(self._creator).__name__)
        return "env" if name == "<lambda>" else str(name)

    @property
    def holds_state(self) -> bool:
        """Whether it may remember something from call to call, which copies in other processes would not share."""
        return not _is_plain(self._creator)

    def check(self, kwargs: Mapping[str, Any]) -> None:
        """Raise UserError where these arguments cannot fit."""
        check_arguments(self._creator, kwargs, self.id)

    def make(self, kwargs: Mapping[str, Any], max_episode_steps: int | None) -> gym.Env[Any, Any]:
        """Make one."""
        kwargs = dict(kwargs)
        if not takes(self._creator, "render_mode"):
            kwargs.pop("render_mode", None)
        return limited(self._creator(**kwargs), max_episode_steps, self.id)


class FromFile:
    """A class in a file, loaded wherever an environment is made, so that a worker needs no more than the path."""

    spec: GymSpec | None = None

    def __init__(self, path: str, class_name: str) -> None:
        self.id = f"{path}:{class_name}"
        self._path = Path(path).absolute()
        self._class_name = class_name
        self.address = f"{self._path}:{class_name}"

    def check(self, kwargs: Mapping[str, Any]) -> None:
        """Raise UserError where these arguments cannot fit."""
        check_arguments(load_file(self._path, self._class_name), kwargs, self.id)

    def make(self, kwargs: Mapping[str, Any], max_episode_steps: int | None) -> gym.Env[Any, Any]:
        """Make one."""
        return FromCallable(load_file(self._path, self._class_name)).make(kwargs, max_episode_steps)


class Instance:
    """The one environment that the user made."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = env
        self._handed_out = False

    @property
    def id(self) -> str:
        """How errors and run folders call it."""
        return self._env.spec.id if self._env.spec is not None else type(self._env.unwrapped).__name__

    @property
    def spec(self) -> GymSpec | None:
        """Gymnasium's specification where there is one."""
        return self._env.spec

    def check(self, kwargs: Mapping[str, Any]) -> None:
        """Raise UserError where these arguments cannot fit."""
        if kwargs:
            raise UserError(
                f"env_kwargs {sorted(kwargs)} cannot be given to {self.id}, which is already made.",
                remedy="Pass its id or a function that makes it, or give it these arguments yourself.",
                code="env-kwargs",
            )

    def recipe(self) -> GymSpec | None:
        """The specification that `gym.make` can make another one from, or None."""
        spec = self._env.spec
        if spec is None or spec.entry_point is None or any(w.kwargs is None for w in spec.additional_wrappers):
            return None
        return spec

    def make(self, kwargs: Mapping[str, Any], max_episode_steps: int | None) -> gym.Env[Any, Any]:
        """Make one."""
        if self._handed_out:
            raise UserError(
                f"The environment instance {self.id} is already in use, and it is never copied.",
                remedy="Pass its id or a function that makes it, or use num_envs=1.",
                code="env-instance",
            )
        self._handed_out = True
        return limited(self._env, max_episode_steps, self.id)


def limited(env: Any, max_episode_steps: int | None, name: str) -> gym.Env[Any, Any]:
    """An environment that is truncated after so many steps, None for no others than its own.

    Raises:
        UserError: it is no environment, or has a limit that comes first.
    """
    insist_on_gymnasium(env, name)
    made: gym.Env[Any, Any] = env
    if max_episode_steps is None:
        return made
    own = time_limit(made)
    if own is not None and own < max_episode_steps:
        raise UserError(
            f"max_episode_steps is {max_episode_steps}, but {name} already has a TimeLimit of {own} that comes first.",
            remedy="Set the limit where the environment is made.",
            code="max-episode-steps",
        )
    return gym.wrappers.TimeLimit(made, max_episode_steps)


def time_limit(env: gym.Env[Any, Any]) -> int | None:
    """The smallest limit on the steps of an episode among an environment's wrappers, else the one that it declares."""
    limits = []
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, gym.wrappers.TimeLimit):
            limits.append(layer._max_episode_steps)
        layer = layer.env
    declared = env.spec.max_episode_steps if env.spec is not None else None
    return min(limits) if limits else declared


def _is_plain(value: Any) -> bool:
    """Whether a value cannot change: a class, a module, a number, a function over nothing but such values."""
    if isinstance(value, partial):
        return all(map(_is_plain, (value.func, *value.args, *value.keywords.values())))
    if isinstance(value, FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or () if cell.cell_contents is not value]
        return all(map(_is_plain, (*held, *(value.__defaults__ or ()))))
    if isinstance(value, tuple | frozenset):
        return all(map(_is_plain, value))
    return isinstance(value, type | ModuleType | str | bytes | int | float | bool | None)


def insist_on_gymnasium(env: object, name: str) -> None:
    """Raise UserError for anything but a Gymnasium environment, such as one of the old `gym` package."""
    if isinstance(env, gym.Env):
        return
    kind = env if isinstance(env, type) else type(env)
    if all(callable(getattr(env, method, None)) for method in ("reset", "step")):
        old = any(base.__module__.partition(".")[0] == "gym" for base in kind.__mro__)
        raise UserError(
            f"The environment {name} ({kind.__name__}) is "
            f"{'an environment of the old gym package' if old else 'no gymnasium.Env'}.",
            remedy=MIGRATE,
            code="old-gym",
        )
    what = "None" if env is None else f"the class {kind.__name__}" if env is kind else f"an object of {kind.__name__}"
    given = name == kind.__name__  # not what the user's function made
    told = f"{what[0].upper()}{what[1:]} is" if given else f"{name} gave {what}, which is"
    raise UserError(
        f"{told} no environment.",
        remedy="Pass a Gymnasium id, path/to/file.py:ClassName, an environment, or a function that makes one.",
        code="env-type",
    )


def insist_on_spaces(env: gym.Env[Any, Any], name: str) -> None:
    """Raise UserError for an environment that does not say what its observations and actions are."""
    for key, example in (("observation_space", "Box(-1.0, 1.0, (4,))"), ("action_space", "Discrete(2)")):
        space = getattr(env, key, None)
        if not isinstance(space, gym.Space):
            told = f"no {key}" if space is None else f"the {key} {space!r}, which is no gymnasium.Space"
            raise UserError(
                f"The environment {name} has {told}.",
                remedy=f"Set it in __init__, for example self.{key} = gymnasium.spaces.{example}.",
                code="env-space",
            )
