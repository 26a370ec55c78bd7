"""What makes environments: one factory for ids, files, callables and instances."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec as GymSpec

from steadyrl.configs.wrapping import WrapperSettings
from steadyrl.envs.arguments import wrong_argument
from steadyrl.envs.envpool import FromEnvPool
from steadyrl.envs.pictures import modes_of, no_pictures
from steadyrl.envs.registry import missing_package
from steadyrl.envs.sources import (
    FromCallable,
    FromFile,
    Instance,
    Registered,
    Source,
    insist_on_gymnasium,
    insist_on_spaces,
    limited,
    source_of,
    time_limit,
)
from steadyrl.envs.wrappers import Canonical
from steadyrl.envs.wrapping import Wrapping
from steadyrl.errors import Ending, SteadyRLError, UserError, words

EnvLike = str | gym.Env[Any, Any] | Callable[..., gym.Env[Any, Any]]


@dataclass(frozen=True)
class FactorySpec:
    """What is known of an environment before one is made; None where it is not."""

    max_episode_steps: int | None = None
    reward_threshold: float | None = None


class EnvFactory:
    """Makes the same environment as often as needed, always canonical.

    Attributes:
        id: The id, the `file:Class` as it was given, or the name of the callable or class.
        spec: Limit and threshold where they are known before one is made.
        registered: Gymnasium's specification for an id, None for anything else.
        wrapping: What goes around each environment, None for nothing.
        action_masks: Whether the environments tell action masks.
        masks_bind: Whether nothing may be done but what these allow: wrappers that hold actions are refused then.
        draws: Whether the environments say that they can be filmed, as far as one was looked at.
    """

    action_masks = True
    masks_bind = False
    draws = True

    def __init__(
        self,
        source: Source,
        env_kwargs: Mapping[str, Any] | None = None,
        max_episode_steps: int | None = None,
        wrappers: WrapperSettings | None = None,
    ) -> None:
        self._source = source
        self.wrappers = wrappers
        self.env_kwargs = dict(env_kwargs or {})
        self.max_episode_steps = max_episode_steps
        self.id = source.id
        told = source.spec
        limit = max_episode_steps or (told.max_episode_steps if told else None)
        self.spec = FactorySpec(limit, told.reward_threshold if told else None)
        source.check(self.env_kwargs)
        self.wrapping = Wrapping.of(wrappers, self.id, self.registered, self.env_kwargs)

    @property
    def registered(self) -> GymSpec | None:
        """Gymnasium's specification for an id, None for anything else."""
        return self._source.spec if isinstance(self._source, Registered) else None

    @property
    def address(self) -> str | None:
        """What finds this environment from anywhere: an id, or a path and a class; None where nothing does."""
        return self._source.address if isinstance(self._source, Registered | FromFile) else None

    @property
    def pool_task(self) -> str | None:
        """EnvPool's name of an environment that was asked for as EnvPool's own, None for anything else."""
        return self._source.task if isinstance(self._source, FromEnvPool) else None

    @property
    def is_instance(self) -> bool:
        """Whether there is only the one environment that the user made."""
        return isinstance(self._source, Instance)

    @property
    def holds_state(self) -> bool:
        """Whether the user's function that makes environments may remember something from call to call."""
        return isinstance(self._source, FromCallable) and self._source.holds_state

    @property
    def can_remake(self) -> bool:
        """Whether another environment of this kind can be made, for evaluation say."""
        return not isinstance(self._source, Instance) or self._source.recipe() is not None

    def remake(self) -> EnvFactory:
        """A factory of further environments of this kind: itself, or `gym.make(env.spec)` for an instance.

        Raises:
            UserError: an instance does not say how it was made.
        """
        if not isinstance(self._source, Instance):
            return self
        recipe = self._source.recipe()
        if recipe is None:
            raise UserError(
                f"The environment instance {self.id} does not say how to make another one.",
                remedy="Pass a function that makes it, or an eval_env= of its own.",
                code="env-instance",
            )
        wrappers = self.wrappers
        if wrappers is not None:  # `auto` was decided for what the user made, not for the id behind it
            atari = self.wrapping is not None and self.wrapping.atari
            wrappers = dataclasses.replace(wrappers, atari="on" if atari else "off")
        other = EnvFactory(Registered(recipe), max_episode_steps=self.max_episode_steps, wrappers=wrappers)
        other.action_masks, other.masks_bind = self.action_masks, self.masks_bind
        return other

    def __call__(
        self, render_mode: str | None = None, *, index: int | None = None, role: str = "Environment"
    ) -> Canonical:
        """Make an environment.

        Args:
            render_mode: Gymnasium's; it must be one that the environment offers.
            index: The environment's number in a vector, for errors.
            role: How errors begin that tell what it raised, such as "An evaluation environment".

        Raises:
            UserError: it cannot be made like this.
        """
        try:
            env = self.bare(render_mode)
        except (SteadyRLError, KeyboardInterrupt, Ending):
            raise
        except BaseException as error:
            if render_mode is not None:
                self._insist_on_mode(render_mode, error)
            raise self.not_made(error) from error
        insist_on_gymnasium(env, self.id)
        insist_on_spaces(env, self.id)
        if render_mode is not None and env.render_mode != render_mode:
            raise no_pictures(self.id, render_mode, modes_of(env))
        wrapped, bind = self.wrapped(env), self.action_masks and self.masks_bind
        return Canonical(wrapped, self.id, index, role, masks=self.action_masks, bind=bind)

    def _insist_on_mode(self, mode: str, error: BaseException) -> None:
        """Raise UserError where it is the render mode that an environment cannot be made with."""
        try:
            plain = self.bare()
            declared = modes_of(plain)
            plain.close()
        except Exception:
            return  # it cannot be made without either
        if mode not in declared or (isinstance(error, TypeError) and "argument" in words(error)):
            raise no_pictures(self.id, mode, declared) from error

    def wrapped(self, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        """A bare environment in what the settings put around it.

        Raises:
            UserError: a wrapper does not fit it, or is missing.
        """
        if self.wrapping is None:
            return env
        with quiet_gymnasium():
            return self.wrapping.around(env, self.id, self._limits()[1], time_limit(env))

    def around(self, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        """An environment that the user made in all that the settings put around it, for a look at its spaces.

        Raises:
            UserError: a wrapper does not fit it, or is missing.
        """
        return env if self.wrapping is None else self.wrapped(limited(env, self._limits()[0], self.id))

    def _limits(self) -> tuple[int | None, int | None]:
        """The time limit of the environment itself, and one outside of what repeats actions, where that is the limit.

        -1 leaves out the limit that Gymnasium puts around an id.
        """
        limit = self.max_episode_steps
        if limit is None or self.wrapping is None or self.wrapping.repeats == 1:
            return limit, None
        return -1 if isinstance(self._source, Registered) else None, limit

    def bare(self, render_mode: str | None = None) -> gym.Env[Any, Any]:
        """Make an environment as it is, without any wrapper.

        Raises:
            UserError: a package is missing.
            BaseException: whatever its constructor raises.
        """
        kwargs = dict(self.env_kwargs) | (dict(self.wrapping.arguments) if self.wrapping else {})
        if render_mode is not None:
            kwargs["render_mode"] = render_mode
        inside, _ = self._limits()
        with quiet_gymnasium():
            try:
                return self._source.make(kwargs, inside)
            except (gym.error.DependencyNotInstalled, ImportError) as error:
                raise missing_package(self.id, error) from error

    def not_made(self, error: BaseException) -> UserError:
        """The error of a constructor, in words; an argument that it does not take is named."""
        text = words(error).partition(" was raised from the environment creator")[0]
        unexpected = re.search(r"unexpected keyword argument '(\w+)'", text)
        if isinstance(error, TypeError) and unexpected and unexpected[1] in self.env_kwargs:
            return wrong_argument(self.id, text, [], unexpected[1])
        return UserError(
            f"Making the environment {self.id} raised {type(error).__name__}: {text}",
            remedy="Correct its arguments (env_kwargs) or its constructor.",
            code="env-make",
        )


def make_env_factory(
    env: EnvLike | EnvFactory,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    wrappers: WrapperSettings | None = None,
) -> EnvFactory:
    """A factory from what the user gave.

    Args:
        env: A Gymnasium id, `package.module:Id-v0`, `path/to/file.py:ClassName`, a class or function that makes an
            environment, or one environment (which is then the only one; it is never copied).
        env_kwargs: Arguments of the environment.
        max_episode_steps: Truncates episodes after this many steps instead of the environment's own limit.
        wrappers: What goes around each environment; None for nothing, also around Atari games.

    Raises:
        UserError: there is no such environment, a package it needs is missing, or an argument is wrong. One whose
            constructor fails is found by calling the factory.
    """
    if isinstance(env, EnvFactory):
        if env_kwargs or max_episode_steps or wrappers:
            raise UserError(
                "This environment already has its settings.", remedy="Leave them out here.", code="env-kwargs"
            )
        return env
    if max_episode_steps is not None and not (is_whole(max_episode_steps) and max_episode_steps >= 1):
        raise UserError(
            f"max_episode_steps is {max_episode_steps!r}.",
            remedy="It has to be a whole number from 1 on.",
            code="max-episode-steps",
        )
    return EnvFactory(source_of(env), env_kwargs, max_episode_steps, wrappers)


def is_whole(value: object) -> bool:
    """Whether it is a whole number: Python's or NumPy's, but no truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


@contextmanager
def quiet_gymnasium() -> Iterator[None]:
    """Gymnasium's own warnings about how an environment is made are off; those of the environment's code stay."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"gymnasium\.")
        yield
