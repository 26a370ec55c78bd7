"""What a worker tells of an environment that failed, and the error that the parent makes of it."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Literal

from steadyrl.envs.failure import Failure
from steadyrl.envs.trace import EpisodeTrace
from steadyrl.envs.wrappers import Canonical
from steadyrl.errors import NonFiniteError, RunFailedError, SteadyRLError, UserError, words

Phase = Literal["make", "reset", "step", "close"]

_KINDS: dict[str, type[SteadyRLError]] = {kind.__name__: kind for kind in (UserError, NonFiniteError, RunFailedError)}


@dataclass(frozen=True)
class Report:
    """An error of one environment, in plain data.

    Attributes:
        kind: Name of the error's class.
        message: Its own, with `remedy` and `code`.
        failure: All that is known.
        asks: The worker waits for the seed to start the environment anew with.
    """

    kind: str
    message: str
    remedy: str
    code: str
    failure: Failure
    asks: bool

    def error(self) -> SteadyRLError:
        """The error, with the worker's traceback as a note and all that is known as its attribute `failure`."""
        error = _KINDS[self.kind](self.message, remedy=self.remedy, code=self.code)
        return with_failure(error, self.failure)


def report_of(
    error: BaseException, index: int, worker: int, phase: Phase, env: Canonical | None = None, *, asks: bool = False
) -> Report:
    """The report of an error.

    Args:
        error: What was raised.
        index: Number of the environment.
        worker: Number of this worker.
        phase: What the environment was doing.
        env: The environment, where there is one.
        asks: As in `Report`.
    """
    told = error if isinstance(error, SteadyRLError) else _in_words(error, index, phase)
    kind = next(name for name, known in _KINDS.items() if isinstance(told, known) or name == RunFailedError.__name__)
    source = error.__cause__ or error
    trace = EpisodeTrace() if env is None else env.trace
    failure = Failure(
        env_index=index,
        worker=worker,
        phase=phase,
        step=0 if env is None else env.elapsed,
        seed=trace.seed,
        options=trace.options,
        random_state=trace.random_state,
        actions=trace.actions,
        whole=trace.whole,
        error=f"{type(source).__name__}: {words(source)}",
        traceback="".join(traceback.format_exception(error)),
    )
    return Report(kind, told.message, told.remedy, told.code, failure, asks)


def with_failure(error: SteadyRLError, failure: Failure) -> SteadyRLError:
    """The error with all that is known of the environment."""
    vars(error)["failure"] = failure
    seed = "" if failure.seed is None else f", seed {failure.seed}"
    place = f"In worker {failure.worker}, environment {failure.env_index}, step {failure.step} of its episode{seed}"
    error.add_note(f"{place}:\n{failure.traceback}" if failure.traceback else f"{place}.")
    return error


def _in_words(error: BaseException, index: int, phase: Phase) -> SteadyRLError:
    what = f"{type(error).__name__}: {words(error)}"
    if phase == "make":
        return RunFailedError(
            f"Environment {index} cannot be made in its own process: {what}",
            remedy="Define it in a module or file that a new process can import, or use vec='sync'.",
            code="env-worker",
        )
    return RunFailedError(
        f"Environment {index} raised {type(error).__name__} in {phase}(): {words(error)}",
        remedy="The fault is in the environment's own code: its traceback says where.",
        code="env-error",
    )
