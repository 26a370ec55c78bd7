"""What is said of an environment that was asked for pictures and has none."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from steadyrl.errors import UserError

_DRAWS = {
    "rgb_array": "returns an array [height, width, 3] of uint8",
    "human": "shows it in a window",
}


def modes_of(env: gym.Env[Any, Any]) -> list[str]:
    """The render modes that an environment declares."""
    metadata: Any = env.metadata  # whatever its class says
    declared = metadata.get("render_modes") if isinstance(metadata, dict) else None
    return [str(mode) for mode in declared] if isinstance(declared, list | tuple) else []


def no_pictures(name: str, mode: str, declared: list[str]) -> UserError:
    """The error for an environment that does not draw in this mode.

    Args:
        name: How errors call the environment.
        mode: Gymnasium's render mode.
        declared: The modes that it says it has; with this one among them, it was made without.
    """
    if mode in declared:
        return UserError(
            f"The environment {name} declares the render mode {mode}, but is made with render_mode=None.",
            remedy="Let what makes it take render_mode, pass it on, and keep it in self.render_mode.",
            code="render-mode",
        )
    has = f"only {', '.join(declared)}" if declared else "none"
    return UserError(
        f"The environment {name} has no render mode {mode}: it declares {has}.",
        remedy=f"It needs metadata = {{'render_modes': ['{mode}'], 'render_fps': 30}}, a constructor that takes "
        f"render_mode and keeps it in self.render_mode, and a render() that {_DRAWS.get(mode, 'draws')}.",
        code="render-mode",
    )
