"""What goes with a policy into an environment that it is given later, to learn in or to be evaluated in.

| of the training | into the same environment, by name | into another one, or an object | into a vector |
|---|---|---|---|
| wrappers | yes | yes | no |
| `action_masks="off"` | yes | yes | yes |
| `env_kwargs` | yes | no | no |
| time limit | yes | where `time_in_obs` tells shares of it | no |

So it is in `load`, `set_env` and `evaluate`; what the call itself says goes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

import gymnasium as gym

from steadyrl.configs.run import RunSettings
from steadyrl.envs.score import RawScore
from steadyrl.envs.sources import source_of, time_limit
from steadyrl.training.settings import read_settings
from steadyrl.training.wrapped import wrappers_in


def brought(about: Mapping[str, Any], env: Any) -> dict[str, Any]:
    """The settings that a policy brings along into an environment, by this table.

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


def settings_along(about: Mapping[str, Any], env: Any, vec: str) -> RunSettings:
    """The same as settings, all others being the defaults but for how environments are stepped.

    Raises:
        UserError: as `brought`, or a bundle holds what is no setting.
    """
    return read_settings({**brought(about, env), "env": "", "vec": vec})


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
