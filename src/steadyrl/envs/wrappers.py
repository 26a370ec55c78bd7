"""The wrapper that makes one environment's output canonical, in the process where the environment lives."""

from __future__ import annotations

from typing import Any, NoReturn

import gymnasium as gym

from steadyrl.envs.convert import action_converter, flag_of, info_of, obs_converter, reward_of
from steadyrl.errors import RunFailedError, SteadyRLError, UserError

MIGRATE = (
    "It has to follow Gymnasium, not the old gym: reset(self, *, seed=None, options=None) returns (obs, info), "
    "step(self, action) returns (obs, reward, terminated, truncated, info); the class is derived from gymnasium.Env."
)


class Canonical(gym.Wrapper[Any, Any, Any, Any]):
    """Own copies of everything, rewards as floats, flags as bools, and errors in words.

    Observations are fresh arrays of the space's dtype, so that an environment may reuse its arrays. `info` keeps
    `is_success` and `action_mask`. Actions arrive in the environment's own dtype. What the environment raises becomes
    a RunFailedError that names it; what breaks the Gymnasium interface is a UserError.

    Args:
        env: The environment, with all its other wrappers.
        name: How errors call it; its id or class.
        index: Its number in a vector of environments.
    """

    def __init__(self, env: gym.Env[Any, Any], name: str = "", index: int | None = None) -> None:
        super().__init__(env)
        self.metadata = dict(env.metadata)  # Gymnasium 1.1 writes into the class's own
        self.name = name or (env.spec.id if env.spec is not None else type(env.unwrapped).__name__)
        self.index = index
        self.elapsed = 0  # steps since the last reset
        self._obs = obs_converter(env.observation_space, self.name)
        self._action = action_converter(env.action_space)

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """The inner environment's specification: this wrapper is no part of how to make it."""
        return self.env.spec

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Raises:
            UserError: the environment breaks the Gymnasium interface.
            RunFailedError: the environment raised an error.
        """
        self.elapsed = 0
        try:
            result: Any = self.env.reset(seed=seed, options=options)
        except Exception as error:
            self._raise(error)
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
            raise self._old(f"reset() of {self.name} returned {_kind(result)} instead of (obs, info).")
        return self._obs(result[0]), info_of(result[1], self.name)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step.

        Raises:
            UserError: the environment breaks the Gymnasium interface.
            RunFailedError: the environment raised an error.
        """
        self.elapsed += 1
        try:
            result: Any = self.env.step(self._action(action))
        except Exception as error:
            self._raise(error)
        if type(result) is not tuple or len(result) != 5:
            raise self._old(f"step() of {self.name} returned {_kind(result)} instead of five.")
        obs, reward, terminated, truncated, info = result
        return (
            self._obs(obs),
            reward if type(reward) is float else reward_of(reward, self.name),
            terminated if type(terminated) is bool else flag_of(terminated, "terminated", self.name),
            truncated if type(truncated) is bool else flag_of(truncated, "truncated", self.name),
            info_of(info, self.name) if info or type(info) is not dict else {},
        )

    def _raise(self, error: Exception) -> NoReturn:
        if isinstance(error, SteadyRLError):
            raise error
        text = str(error)
        if isinstance(error, TypeError) and "reset() got an unexpected keyword argument" in text:
            raise self._old(f"reset() of {self.name} does not take seed= and options= ({text}).") from error
        if isinstance(error, ValueError) and "expected 5, got 4" in text:  # a wrapper such as TimeLimit met them first
            raise self._old(f"step() of {self.name} returned 4 values instead of five.") from error
        number = "" if self.index is None else f" {self.index}"
        when = f"in step {self.elapsed} of its episode" if self.elapsed else "in reset()"
        raise RunFailedError(
            f"Environment{number} ({self.name}) raised {type(error).__name__} {when}: {text}",
            remedy="The fault is in the environment's own code: its traceback says where.",
            code="env-error",
        ) from error

    def _old(self, message: str) -> UserError:
        return UserError(message, remedy=MIGRATE, code="old-gym")


def _kind(result: Any) -> str:
    if isinstance(result, tuple):
        return f"{len(result)} value{'s' if len(result) != 1 else ''}"
    return f"one {type(result).__name__}"
