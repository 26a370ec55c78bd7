"""Wrappers by name: Gymnasium's, those of any package, and those of a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

from steadyrl.envs.atari import AtariFrames
from steadyrl.envs.bounds import lacking
from steadyrl.envs.registry import Wanted, import_module, load_file, without_class
from steadyrl.errors import SteadyRLError, UserError, nearest, words

_GYMNASIUM = "gymnasium.wrappers"
_WRAPPER = Wanted(
    gym.Wrapper,
    "wrapper",
    "A wrapper is a name of gymnasium.wrappers, package.module:Class or path/to/file.py:Class.",
    "wrapper-file",
)
_NORMALISING = {
    gym.wrappers.NormalizeObservation: "normalize_obs=True (--normalize-obs)",
    gym.wrappers.NormalizeReward: "normalize_reward=True (--normalize-reward)",
}
_REFUSED = {"Autoreset": "it resets the environment by itself, which is done here already"}


def wrapped(env: gym.Env[Any, Any], entry: Mapping[str, Any], name: str) -> gym.Env[Any, Any]:
    """The environment in a wrapper.

    Args:
        env: The environment.
        entry: `name` and `kwargs` of the wrapper.
        name: How errors call the environment.

    Raises:
        UserError: there is no such wrapper, it does not take these arguments or actions, it makes no environment, or
            it learns statistics that no policy would be saved with.
    """
    wrapper = wrapper_of(entry["name"])
    kwargs = {key: tuple(value) if isinstance(value, list) else value for key, value in entry["kwargs"].items()}
    try:
        made = wrapper(env, **kwargs)
    except (SteadyRLError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise UserError(
            f"The wrapper {entry['name']} around {name} raised {type(error).__name__}: {words(error)}",
            remedy="Correct its arguments, such as wrappers=[{'name': NAME, 'kwargs': {...}}], or leave it out.",
            code="wrapper",
        ) from error
    if not isinstance(made, gym.Env):
        raise UserError(
            f"The wrapper {entry['name']} around {name} gave a {type(made).__name__}, which is no gymnasium.Env.",
            remedy="Derive it from gymnasium.Wrapper.",
            code="wrapper",
        )
    _insist_on_fit(made, env, entry["name"], name)
    return made


def _insist_on_fit(made: gym.Env[Any, Any], env: gym.Env[Any, Any], wrapper: str, name: str) -> None:
    """Raise UserError for what Gymnasium's wrappers among those between `made` and `env` cannot do here."""
    layer: Any = made
    while isinstance(layer, gym.Wrapper) and layer is not env:
        if isinstance(layer, gym.wrappers.AtariPreprocessing) and within(env, AtariFrames):
            raise UserError(
                f"The wrapper {wrapper} and Atari preprocessing, which is on for {name}, are two of the same.",
                remedy="Leave the wrapper out, or use atari='off' (--atari off).",
                code="wrapper",
            )
        cure = _cure_of(layer)
        if cure:
            raise UserError(
                f"The wrapper {wrapper} around {name} learns statistics, which no saved policy would hold: every "
                "evaluation would begin with others.",
                remedy=f"Use {cure} instead, whose statistics are a part of the policy.",
                code="wrapper",
            )
        scales = isinstance(layer, gym.wrappers.RescaleAction | gym.wrappers.ClipAction)
        space = layer.env.action_space
        wanted = lacking(space, finite=False) if scales else ""
        if wanted:
            raise UserError(
                f"The wrapper {wrapper} needs actions {wanted}, but those of {name} are {space}.",
                remedy="Leave it out: the policy's actions go to the bounds that there are without it.",
                code="wrapper",
            )
        layer = layer.env


def _cure_of(layer: Any) -> str:
    """What does the same as a wrapper that learns statistics; empty for any other."""
    return next((cure for kind, cure in _NORMALISING.items() if isinstance(layer, kind)), "")


def within(env: gym.Env[Any, Any], kind: type) -> gym.Env[Any, Any] | None:
    """The outermost layer of an environment that is of such a class; None where there is none."""
    layer = env
    while isinstance(layer, gym.Wrapper) and not isinstance(layer, kind):
        layer = layer.env
    return layer if isinstance(layer, kind) else None


def statistics_notes(env: gym.Env[Any, Any], name: str) -> list[str]:
    """What the user should know who made an environment with wrappers that learn statistics."""
    found = [layer for kind in _NORMALISING if (layer := within(env, kind)) is not None]
    return [
        f"{type(layer).__name__}, within {name}, learns statistics, which no saved policy holds: every evaluation "
        f"begins with others. {_cure_of(layer)} does the same with statistics that are a part of the policy."
        for layer in found
    ]


def wrapper_of(name: str) -> Callable[..., Any]:
    """The class or function of this name.

    Raises:
        UserError: there is none; the nearest one is named.
    """
    module, _, attribute = name.rpartition(":")
    if name.endswith((".py", ".py:")):
        raise without_class(name.removesuffix(":"), _WRAPPER)
    if module.endswith(".py"):
        return load_file(Path(module).absolute(), attribute, _WRAPPER)
    if not module:
        module, _, attribute = name.rpartition(".")
    if module in ("", _GYMNASIUM, "gym.wrappers"):
        return _of_gymnasium(attribute, name)
    import_module(module, name)
    found: Any = sys.modules[module]
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        classes = [key for key, value in vars(sys.modules[module]).items() if _is_wrapper(value)]
        raise UserError(
            f"The module {module} has no wrapper '{attribute}'.",
            remedy=nearest(attribute, classes) or f"It has {', '.join(classes) or 'none'}.",
            code="unknown-wrapper",
        )
    wrapper: Callable[..., Any] = found
    return wrapper


def _of_gymnasium(attribute: str, name: str) -> Callable[..., Any]:
    known = [key for key in dir(gym.wrappers) if _is_wrapper(getattr(gym.wrappers, key)) and key not in _REFUSED]
    if attribute in _REFUSED:
        raise UserError(
            f"The wrapper {attribute} cannot be used: {_REFUSED[attribute]}.", remedy="Leave it out.", code="wrapper"
        )
    if attribute not in known:
        raise UserError(
            f"There is no wrapper '{name}' in gymnasium.wrappers.",
            remedy=nearest(attribute, known)
            or f"One of your own is named package.module:{attribute} or "
            f"path/to/file.py:{attribute}. Gymnasium has {', '.join(known)}.",
            code="unknown-wrapper",
        )
    wrapper: Callable[..., Any] = getattr(gym.wrappers, attribute)
    return wrapper


def _is_wrapper(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, gym.Wrapper)
