"""What the backend can be asked for."""

from __future__ import annotations

import socket
from numbers import Integral, Real
from typing import get_args

from steadyrl.envs.workers.keeper import Context
from steadyrl.errors import UserError


def insist_on(context: str, workers: int | None, timeout: float) -> None:
    """Raise UserError for an argument that is wrong, or a system that cannot do it."""
    if context == "fork":
        raise UserError(
            "Workers cannot be started by 'fork': a copy of this process has its locks, but not the threads of PyTorch "
            "that would release them, and hangs.",
            remedy="Use context 'forkserver' or 'spawn'.",
            code="env-context",
        )
    if context not in get_args(Context):
        raise UserError(f"context is {context!r}.", remedy="It is 'forkserver' or 'spawn'.", code="env-context")
    if workers is not None and not isinstance(workers, Integral):
        raise UserError(f"The number of workers is {workers!r}.", remedy="It is a whole number.", code="num-workers")
    if workers is not None and workers < 1:
        raise UserError(f"The number of workers is {workers}.", remedy="It has to be 1 or more.", code="num-workers")
    if not isinstance(timeout, Real) or not timeout > 0:
        raise UserError(f"env_timeout is {timeout!r}.", remedy="It is a number of seconds above 0.", code="env-timeout")
    if not hasattr(socket, "send_fds"):
        raise UserError(
            "Environments in processes of their own need Linux or macOS.",
            remedy="Use vec='sync'.",
            code="env-context",
        )
