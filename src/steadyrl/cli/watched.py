"""A command in a process of its own, watched by this one: an environment's code may hang, or end the process."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from steadyrl.cli.session import Session
from steadyrl.errors import RunFailedError
from steadyrl.training.signals import signals_raise

_VARIABLE = "STEADYRL_WATCHED"  # descriptor on which the watched process says that it goes on, and who watches
_GOES_ON, _BUSY, _ENDED = b"g", b"b", b"e"
_SLACK_S = 5.0  # what comes between two signs beside a step of the environment
_GRACE_S = 2.0


class Signs:
    """What the watched process says to the one that watches.

    Args:
        file: Where; None where nobody watches.
    """

    def __init__(self, file: int | None) -> None:
        self._file = file

    @classmethod
    def here(cls) -> Signs:
        """Those of this process."""
        told = os.environ.pop(_VARIABLE, None)
        if told is None:
            return cls(None)
        from steadyrl.envs.workers.worker import end_with

        file, watcher = map(int, told.split())
        os.set_inheritable(file, False)
        end_with(watcher)
        return cls(file)

    @property
    def are_read(self) -> bool:
        """Whether somebody watches."""
        return self._file is not None

    def going(self, stepping: bool = True) -> None:
        """It goes on; with `stepping` the next sign comes after a step of the environments, else whenever it does."""
        self._say(_GOES_ON if stepping else _BUSY)

    @contextmanager
    def orderly(self) -> Iterator[None]:
        """Whatever leaves this block is an end in good order, as opposed to one of the process alone."""
        try:
            yield
        finally:
            self._say(_ENDED)

    def _say(self, what: bytes) -> None:
        if self._file is not None:
            try:
                os.write(self._file, what)
            except OSError:
                os._exit(1)  # whoever watched is gone


def can_watch() -> bool:
    """Whether the system lets a process inherit a descriptor."""
    return os.name == "posix"


def run_watched(args: Sequence[str], env: str, timeout: float, turn: float, session: Session) -> int:
    """Run the command with these words in another process; returns its exit status.

    Args:
        args: Words after `steadyrl`.
        env: How errors call the environment.
        timeout: Seconds that the environment may take for a step.
        turn: Seconds that the other process steps between two signs.
        session: Of this process; what the other one prints to stdout is the result.

    Raises:
        RunFailedError: the environment hangs, or ended the process.
        Signalled: a signal came; the other process has ended.
    """
    signs, theirs = os.pipe()
    with tempfile.TemporaryFile() as document, signals_raise():
        program = subprocess.Popen(
            [sys.executable, "-m", "steadyrl", *args],
            env={**os.environ, _VARIABLE: f"{theirs} {os.getpid()}"},
            pass_fds=[theirs],
            stdout=document if session.json else None,
            process_group=0,  # a terminal's Ctrl-C is this process's to answer
        )
        os.close(theirs)
        try:
            ended = _watch(signs, env, timeout, turn)
            status = program.wait()
        finally:
            os.close(signs)
            _end(program)
        if not ended:
            raise _ended_by_itself(env, status)
        if session.json:
            _pass_on(document, session)
    return status


def _watch(signs: int, env: str, timeout: float, turn: float) -> bool:
    """Wait until the other process has ended; returns whether in good order."""
    last = _BUSY
    while True:
        ready, _, _ = select.select([signs], [], [], timeout + turn + _SLACK_S if last == _GOES_ON else None)
        if not ready:
            raise RunFailedError(
                f"{env} did not answer within {timeout:g} s while it was measured.",
                remedy="Raise env_timeout (--env-timeout) if a step may take longer; else its code hangs.",
                code="env-timeout",
            )
        told = os.read(signs, 4096)
        if not told:
            return last == _ENDED
        last = told[-1:]


def _ended_by_itself(env: str, status: int) -> RunFailedError:
    from steadyrl.envs.workers.loss import how

    return RunFailedError(
        f"The code of {env} ended the process that measured it ({how(status)}).",
        remedy="Look above for what it printed; let it raise an error that says what is wrong.",
        code="env-exit",
    )


def _end(program: subprocess.Popen[bytes]) -> None:
    """End the process, if it still runs, and what its environments started, which is in its group."""
    if program.returncode is not None:
        return
    program.terminate()
    with suppress(subprocess.TimeoutExpired):
        program.wait(_GRACE_S)
    with suppress(ProcessLookupError):  # a group keeps its number as long as somebody is in it
        os.killpg(program.pid, signal.SIGKILL)
    program.wait()


def _pass_on(document: IO[bytes], session: Session) -> None:
    document.seek(0)
    text = document.read().decode()
    if text and session.write is not None:
        session.emitted = True
        session.write(text)
