"""Deep reinforcement learning on PyTorch and Gymnasium.

Fast on the machine you have, reproducible to the bit, and able to say why a run goes wrong.
Names are loaded when they are first used, so that `import steadyrl` costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from steadyrl._version import __version__

if TYPE_CHECKING:
    from steadyrl.checker.run import check_env
    from steadyrl.configs.schedules import LinearSchedule
    from steadyrl.envs.vector import make_vec
    from steadyrl.errors import RunFailedError, SteadyRLError, UserError
    from steadyrl.training.agents import A2C, DDPG, DQN, PPO, SAC, TD3, evaluate, load
    from steadyrl.training.displays import make_display
    from steadyrl.training.going_on import resume
    from steadyrl.training.run import Run, train

_HOME = {
    "A2C": "training.agents",
    "DDPG": "training.agents",
    "DQN": "training.agents",
    "PPO": "training.agents",
    "SAC": "training.agents",
    "TD3": "training.agents",
    "LinearSchedule": "configs.schedules",
    "Run": "training.run",
    "RunFailedError": "errors",
    "SteadyRLError": "errors",
    "UserError": "errors",
    "check_env": "checker.run",
    "evaluate": "training.agents",
    "load": "training.agents",
    "make_display": "training.displays",
    "make_vec": "envs.vector",
    "resume": "training.going_on",
    "train": "training.run",
}

__all__ = [
    "A2C",
    "DDPG",
    "DQN",
    "PPO",
    "SAC",
    "TD3",
    "LinearSchedule",
    "Run",
    "RunFailedError",
    "SteadyRLError",
    "UserError",
    "__version__",
    "check_env",
    "evaluate",
    "load",
    "make_display",
    "make_vec",
    "resume",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise _missing(name)
    value = getattr(importlib.import_module(f"steadyrl.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def _missing(name: str) -> Exception:
    """The error for a name that there is not; says what takes its place where it is one of another library."""
    text = f"module 'steadyrl' has no attribute {name!r}"
    cure = None if name.startswith("_") else importlib.import_module("steadyrl.config.habits").NAMES.get(name)
    if cure is None:
        return AttributeError(text)
    # `from steadyrl import NAME` throws the text of an AttributeError away.
    importing = sys._getframe(2).f_globals.get("__name__") == "importlib._bootstrap"
    return (ImportError if importing else AttributeError)(f"{text}. {cure}")


def __dir__() -> list[str]:
    return sorted(__all__)
