"""The error where a worker died or does not answer."""

from __future__ import annotations

import signal
from typing import Literal

from steadyrl.envs.failure import Failure
from steadyrl.envs.workers.board import CLOSE, IDLE, MAKE, RESET, STARTING, STEP, Board
from steadyrl.envs.workers.log import ActionLog
from steadyrl.envs.workers.process import Loss
from steadyrl.envs.workers.report import Phase, with_failure
from steadyrl.errors import RunFailedError, SteadyRLError

_PHASES: dict[int, Phase] = {
    STARTING: "make", MAKE: "make", RESET: "reset", STEP: "step", IDLE: "step", CLOSE: "close"
}  # fmt: skip
_RAISE = "Raise env_timeout (--env-timeout) if it may take longer; else its code hangs: the traceback says where."
_STOPPED = "Look for what sent it SIGSTOP; vec='sync' runs it in this process."
_DEAD = "Look above for what it printed; vec='sync' runs it in this process."
_HUNG, _ENDED = "did not answer within", "ended by itself"


def lost(
    loss: Loss, worker: int, block: range, name: str, board: Board, log: ActionLog | None, limit: float
) -> SteadyRLError:
    """The error, with all that is known of the environment as its attribute `failure`.

    Args:
        loss: What happened.
        worker: Number of the worker.
        block: Numbers of its environments.
        name: How errors call the environment.
        board: Where it said what it was doing.
        log: The actions so far, where there were any.
        limit: Seconds that it had.
    """
    phase = board.phase[worker]
    index = block[0] if phase in (IDLE, STARTING) else board.current[worker]
    begun = board.start(index) if phase in (IDLE, RESET, STEP, CLOSE) else None
    step = 0 if phase in (MAKE, STARTING) else board.elapsed(index)
    seed = "" if begun is None or begun.seed is None else f" (seed {begun.seed})"
    where = {
        IDLE: f"after step {step} of its episode{seed}",
        STARTING: "while its process started",
        MAKE: "while it was made",
        RESET: f"in reset(){seed}",
        STEP: f"in step {step} of its episode{seed}",
        CLOSE: "in close()",
    }[phase]
    if loss.status is None:
        why = ": its process was stopped by a signal" if loss.stopped else ""
        error = RunFailedError(
            f"Environment {index} ({name}) in worker {worker} {_HUNG} {limit:g} s {where}{why}.",
            remedy=_STOPPED if loss.stopped else _RAISE,
            code="env-timeout",
        )
    else:
        error = RunFailedError(
            f"The process of environment {index} {_ENDED} ({how(loss.status)}) {where}: "
            f"it was worker {worker} with {name}.",
            remedy=_DEAD,
            code="env-worker",
        )
    actions, whole = log.of(index, board.origin[index], board.total[index]) if log and step else ([], True)
    return with_failure(
        error,
        Failure(
            env_index=index,
            worker=worker,
            phase=_PHASES[phase],
            step=step,
            seed=begun and begun.seed,
            options=begun and begun.options,
            random_state=begun and begun.random_state,
            actions=actions,
            whole=whole and (begun is not None or phase in (MAKE, STARTING)),
            error=error.message,
            traceback=loss.stack,
        ),
    )


def kind_of(failure: Failure) -> Literal["hung", "ended", "raised"]:
    """Whether the environment of a failure hung or ended its process; else it raised an error."""
    for index in (f"Environment {failure.env_index} ", f"The process of environment {failure.env_index} "):
        if failure.worker is not None and failure.error.startswith(index):
            return "hung" if _HUNG in failure.error else "ended"
    return "raised"


def how(status: int) -> str:
    """How a process ended, in words; its exit status is negative for a signal."""
    if status >= 0:
        return f"exit status {status}"
    known = {int(number): number.name for number in signal.Signals}
    return f"signal {known.get(-status, -status)}"
