"""Wrappers of a run as its settings tell them: for whom they are, and how they travel with a policy.

What goes with a policy into an environment that it is given later, to learn in (`load`, `set_env`) or to be evaluated
in:

| of the training | into the same environment, by name | into another one, or an object | into a vector |
|---|---|---|---|
| wrappers | yes | yes | no |
| `action_masks="off"` | yes | yes | yes |
| `env_kwargs` | yes | no | no |
| time limit | yes | where `time_in_obs` tells shares of it | no |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import gymnasium as gym

from steadyrl.configs.run import RunSettings
from steadyrl.configs.wrapping import WRAPPER_FIELDS, WrapperSettings
from steadyrl.envs.score import RawScore
from steadyrl.envs.sources import source_of, time_limit
from steadyrl.errors import UserError

_PROGRAMS = ("envpool", "native")  # backends whose environments are one program, which nothing can be put around


def around_singles(settings: RunSettings) -> WrapperSettings:
    """What goes around single environments; with a backend that has none, nothing unless it was asked for by name."""
    only = settings.only
    if settings.vec in _PROGRAMS and only.atari == "auto":
        return dataclasses.replace(only, atari="off")
    return only


def insist_on_bare(settings: WrapperSettings) -> None:
    """Raise UserError where wrappers are asked for around a vector of environments."""
    said = settings.said.keys() - {"atari"}
    if said or settings.atari == "on":
        raise UserError(
            f"Wrappers ({', '.join(sorted(said) or ['atari'])}) go around single environments, and a vector of them "
            "was given.",
            remedy="Put them around its environments where the vector is made, or pass an id or a function instead.",
            code="vec",
        )


def wrappers_in(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a run's settings, as its `config.json` has them, that are wrappers."""
    return {name: settings[name] for name in WRAPPER_FIELDS if name in settings}


def brought(about: Mapping[str, Any], env: Any) -> dict[str, Any]:
    """The settings that a policy brings along into an environment, by the table above.

    Args:
        about: What is known of its training, as a bundle has it.
        env: What the user gave.

    Raises:
        UserError: `env` is a name of which there is no environment.
    """
    options: dict[str, Any] = {"action_masks": "off"} if about.get("action_masks") == "off" else {}
    if isinstance(env, gym.vector.VectorEnv):
        return options
    options |= wrappers_in(about.get("wrappers", {}))
    limit = about.get("max_episode_steps")
    if _is_called(about.get("env"), env):
        options |= {"env_kwargs": about.get("env_kwargs", {}), "max_episode_steps": limit}
    elif options.get("time_in_obs"):
        options["max_episode_steps"] = limit or about.get("time_limit")
    return options


def _is_called(name: Any, env: Any) -> bool:
    """Whether `env` is an id, a class of a file, a class or a function of this name; an object was made otherwise."""
    if isinstance(env, str):
        return bool(source_of(env).id == name)
    return isinstance(env, type | FunctionType) and env.__name__ == name


def counted_limit(env: gym.Env[Any, Any], repeats: int) -> int | None:
    """The time limit that an environment in our wrappers brought itself, in steps of the policy; None without."""
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, RawScore):
            own = time_limit(layer.env)
            return None if own is None else -(-own // repeats)
        layer = layer.env
    return None


def wrapper_names(settings: Mapping[str, Any]) -> list[str]:
    """Names of the wrappers in a run's settings, as its `config.json` has them."""
    return [str(entry["name"]) for entry in settings.get("wrappers", ())]
