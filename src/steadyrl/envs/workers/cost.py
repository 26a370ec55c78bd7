"""What an environment costs, found out in a process of its own: its code may hang, or end the process."""

from __future__ import annotations

from steadyrl.envs.make import EnvFactory
from steadyrl.envs.timing import Cost
from steadyrl.envs.workers.vector import WorkerVectorEnv
from steadyrl.errors import RunFailedError

LOST = ("env-timeout", "env-worker")  # codes of errors of environments that hang, or whose process ended


def cost_elsewhere(factory: EnvFactory, timeout: float) -> Cost:
    """As `steadyrl.envs.timing.cost_of`, in another process.

    Args:
        factory: Makes the environment.
        timeout: Seconds that it may take to be made, to reset, to step and to close.

    Raises:
        RunFailedError: it fails, hangs or ends the process.
        UserError: it cannot be made, or not in another process.
    """
    try:
        envs = WorkerVectorEnv(factory, 1, workers=1, timeout=timeout)
        try:
            cost: Cost = envs.cost()
        finally:
            envs.close()
    except RunFailedError as error:
        if error.code in LOST:
            error.message = f"As {factory.id} was timed in a process of its own: {error.message}"
            error.args = (error.message,)
        raise
    return cost
