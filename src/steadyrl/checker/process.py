"""A process that plays an environment, as its parent sees it: started, listened to, ended where it does not answer."""

from __future__ import annotations

import mmap
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from steadyrl.checker import child
from steadyrl.checker.child import BEAT, PHASES, Task
from steadyrl.checker.records import Died
from steadyrl.envs.workers import keeper
from steadyrl.envs.workers.channel import FAILED, TOLD, Channel
from steadyrl.errors import RunFailedError, SteadyRLError, UserError

_LOOK_S = 0.25  # how often the beats are looked at
_DUMP_S = 0.5  # a hanging process writes its stack in less
_OWN_S = 120.0  # between two calls of the environment the checker itself works; it is never that long
_LINES = 12  # of a stack


class ChildProcess:
    """One process with a task.

    Args:
        task: What it is to do.
    """

    def __init__(self, task: Task) -> None:
        if not hasattr(socket, "send_fds"):
            raise UserError(
                "Environments are checked in processes of their own, which needs Linux or macOS.",
                remedy="Use Gymnasium's own check_env there.",
                code="env-context",
            )
        self._timeout = task.plan.timeout
        self._dump = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._file.truncate(BEAT.size)
        self._board = mmap.mmap(self._file.fileno(), BEAT.size)
        ours, theirs = socket.socketpair()
        files = [theirs.fileno(), self._file.fileno(), self._dump.fileno()]
        self._program = subprocess.Popen(
            keeper.command(child.__name__, *files, os.getpid()),
            pass_fds=files,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        self._channel = Channel(ours)
        self.experiment = "start"
        self._channel.say(TOLD, task)

    def messages(self) -> Iterator[dict[str, Any] | Died]:
        """What it tells, until it is done; a `Died` as the last where it ended or had to be ended.

        Raises:
            SteadyRLError: the environment cannot be made here, for the want of a package say.
        """
        calls, since = -1, time.monotonic()
        while True:
            ready, _, _ = select.select([self._channel.file], [], [], _LOOK_S)
            if ready:
                try:
                    come = self._channel.take()
                except (EOFError, ConnectionResetError):
                    yield self._died(self._status(), 0.0)
                    return
                since = time.monotonic()
                for kind, content in come:
                    if kind == FAILED:
                        raise _error(content)
                    self.experiment = content.get("begin", self.experiment)
                    yield content
                    if content.get("done"):
                        return
                continue
            now = BEAT.unpack_from(self._board, 0)
            if now[0] != calls:
                calls, since = now[0], time.monotonic()
            waited = time.monotonic() - since
            if waited > self._timeout and (PHASES[now[1]] or waited > _OWN_S):
                self._end(signal.SIGABRT)
                yield self._died(None, waited)
                return

    def _died(self, status: int | None, waited: float) -> Died:
        _, phase, step, seed = BEAT.unpack_from(self._board, 0)
        self._dump.seek(0)
        lines = self._dump.read(1 << 16).decode(errors="replace").splitlines()
        own = [line.strip() for line in lines if line.strip().startswith("File")][:_LINES]
        return Died(status, self.experiment, PHASES[phase], step, None if seed < 0 else seed, waited, "\n".join(own))

    def _status(self) -> int:
        try:
            return int(self._program.wait(2.0))
        except subprocess.TimeoutExpired:
            self._end(signal.SIGKILL)
            return -signal.SIGKILL

    def _end(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            self._program.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            self._program.wait(_DUMP_S)

    def close(self) -> None:
        """End it and whatever it started."""
        self._channel.close()
        with suppress(subprocess.TimeoutExpired):
            self._program.wait(1.0)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._program.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._program.wait(2.0)
        self._board.close()
        self._file.close()
        self._dump.close()


def _error(content: tuple[str, str, str, str]) -> SteadyRLError:
    kind, message, remedy, code = content
    known = UserError if kind == UserError.__name__ else RunFailedError
    return known(message, remedy=remedy, code=code)
