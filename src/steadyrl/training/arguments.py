"""Arguments of the Python interface besides hyperparameters: checked, and answered where they are another library's."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from steadyrl.config import HABITS
from steadyrl.errors import UserError, nearest
from steadyrl.training.events import Listener
from steadyrl.training.settings import SETTINGS

_LEARN = ("total_timesteps", "schedule_steps", "callback", "eval_env", "run_dir")


def path_of(path: Any, name: str) -> Path:
    """An argument as the path of a file or folder.

    Raises:
        UserError: it is none, or is empty.
    """
    file = Path(path) if isinstance(path, str | os.PathLike) else Path()
    if not file.name or "\0" in str(file):
        raise UserError(
            f"{name} is {path!r}, which names no file.",
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
    listeners = list(given) if isinstance(given, Iterable) else [given]
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
