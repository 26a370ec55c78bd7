"""Arguments of the Python interface besides hyperparameters: checked, and answered where they are another library's."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gymnasium as gym

from steadyrl.config import HABITS
from steadyrl.config.habits import EVALUATE
from steadyrl.errors import UserError, nearest
from steadyrl.training.events import Listener
from steadyrl.training.settings import SETTINGS

_EVALUATE = ("episodes", "seed", "eval_seed", "deterministic", "env")
_LEARN = ("total_timesteps", "schedule_steps", "callback", "eval_env", "run_dir")


def path_of(path: Any, name: str, *, folder: bool = False) -> Path:
    """An argument as the path of a file, or of a folder, which may be the present one.

    Raises:
        UserError: it is none, or is empty.
    """
    file = Path(path) if isinstance(path, str | os.PathLike) else Path()
    there = folder and isinstance(path, str | os.PathLike) and str(path) != ""
    if not (file.name or there) or "\0" in str(file):
        raise UserError(
            f"{name} is {path!r}, which names no {'folder' if folder else 'file'}.",
            remedy=f"Pass the name as {name}, such as 'cartpole'.",
            code="bad-value",
        )
    return file


def listeners_of(callback: Any) -> list[Listener]:
    """What `callback=` was given, as a list.

    Raises:
        UserError: it is neither a function nor several.
    """
    given = [callback] if callable(callback) else () if callback is None else callback
    try:
        listeners = list(given) if isinstance(given, Iterable) else [given]
    except TypeError:  # an array of no axes says that it is iterable
        listeners = [given]
    for listener in listeners:
        if not callable(listener):
            raise UserError(
                f"callback holds {listener!r}, which is no function.",
                remedy="Pass a function of one event, or a list of such functions.",
                code="bad-value",
            )
    return listeners


def one_argument(name: str, env: Any) -> UserError:
    """The error for an algorithm that was given more than the environment without a name."""
    if isinstance(env, str) and env.endswith("Policy"):
        message = f"{name} takes no policy such as {env!r}: the network follows from the spaces."
    else:
        message = f"{name} takes the environment, and everything else by name."
    return UserError(
        message,
        remedy=f"For example: steadyrl.{name}('CartPole-v1', net_arch=(64, 64), seed=1).",
        code="usage",
    )


def unknown_argument(name: str) -> UserError:
    """The error for an argument that `learn` does not have; says where it belongs or what is near."""
    if name in SETTINGS:
        cure = f"It belongs to the agent: PPO(env, {name}=...)."
    else:
        cure = HABITS.get(name) or nearest(name, _LEARN) or f"It takes {', '.join(_LEARN)}."
    return UserError(f"learn has no argument {name!r}.", remedy=cure, code="unknown-key")


def names_environment(value: Any) -> bool:
    """Whether what was given for a number is an environment, or what makes one."""
    named = isinstance(value, str) and not value.isdigit()
    return named or isinstance(value, gym.Env | gym.vector.VectorEnv) or callable(value)


def evaluated_by_position() -> UserError:
    """The error for an evaluation that was given more than agent and episodes without a name."""
    return UserError(
        "evaluate takes the agent and a number of episodes, and the environment and everything else by name.",
        remedy="For example: steadyrl.evaluate(agent, 5, env='CartPole-v1'); env left out is one like the agent's own.",
        code="usage",
    )


def unknown_to_evaluate(name: str) -> UserError:
    """The error for an argument that `evaluate` does not have; says its name here or what is near."""
    cure = EVALUATE.get(name) or nearest(name, _EVALUATE) or f"It takes {', '.join(_EVALUATE)}."
    return UserError(f"evaluate has no argument {name!r}.", remedy=cure, code="unknown-key")
