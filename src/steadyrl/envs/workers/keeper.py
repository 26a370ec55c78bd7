"""The process that starts the workers, and ends them when the parent closes its end or has ended.

It has one thread and runs nobody else's code, so it never hangs, can be forked safely, and outlives no parent: whatever
becomes of that, the socket between them is at its end then. Workers are its children, and the system ends them with it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import sys
import time
import warnings
from contextlib import suppress
from multiprocessing.util import _args_from_interpreter_flags  # type: ignore[attr-defined]
from types import FrameType
from typing import Literal, NoReturn

from steadyrl.envs.workers import worker

Context = Literal["forkserver", "spawn"]

START, DUMP, KILL = b"S", b"D", b"K"  # orders: begin a worker; let it write its stack and end; end it
STARTED, ENDED = b"s", b"e"  # reports; an exit status is negative for a signal
ORDER = struct.Struct("<cq")  # what, number of the worker
REPORT = struct.Struct("<cqqq")  # what, number of the worker, its process id, its exit status

_LOOK_S = 1.0  # how often it looks whether the parent is there, should a copy of the socket outlive that
_REAP_S = 2.0  # a process that the system cannot end is not waited for longer
_GRACE_S = 0.2  # what an environment started has this long to end after its worker
_BOOT = "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); from {} import main; main(*sys.argv[1:])"


def command(module: str, *arguments: object) -> list[str]:
    """The command line of a Python like this one, with the same modules in reach, that runs `main` of a module."""
    flags = _args_from_interpreter_flags()
    path = json.dumps([str(entry) for entry in sys.path])
    return [sys.executable, *flags, "-c", _BOOT.format(module), path, *map(str, arguments)]


def main(file: str, context: str) -> None:
    """Take orders until the other end is closed.

    Args:
        file: Descriptor of the socket to the parent.
        context: `forkserver` forks workers from this process, `spawn` starts each as a new program.
    """
    with socket.socket(fileno=int(file)) as parent:
        Keeper(parent, context).run()
    os._exit(0)


class Keeper:
    """See the module."""

    def __init__(self, parent: socket.socket, context: str) -> None:
        self._parent = parent
        self._parent_id = os.getppid()
        self._id = os.getpid()  # a worker that asked for its parent's might be told who adopted it
        self._context = context
        self._numbers: dict[int, int] = {}  # process id -> number of the worker
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        worker.leave_signals_to_the_parent()
        signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def run(self) -> None:
        """Take orders until the other end is closed, then end every worker."""
        with suppress(OSError):
            while os.getppid() == self._parent_id:
                ready, _, _ = select.select([self._parent.fileno(), self._woken], [], [], _LOOK_S)
                if self._woken in ready:
                    os.read(self._woken, 4096)
                self._report_ended()
                if self._parent.fileno() in ready and not self._take_order():
                    break
        self._end_all()

    def _take_order(self) -> bool:
        data, files, _, _ = socket.recv_fds(self._parent, ORDER.size, 3)
        if len(data) < ORDER.size:
            return False
        what, number = ORDER.unpack(data)
        if what == START:
            self._start(number, files)
        for process, known in self._numbers.items():
            if known == number and what in (DUMP, KILL):
                _send(process, signal.SIGABRT if what == DUMP else signal.SIGKILL, group=what == KILL)
        return True

    def _start(self, number: int, files: list[int]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 warns of threads, which only NumPy's BLAS may have here
            process = os.fork()
        if not process:
            self._become_worker(files)
        with suppress(OSError):
            os.setpgid(process, process)
        for file in files:
            os.close(file)
        self._numbers[process] = number
        self._report(STARTED, number, process, 0)

    def _become_worker(self, files: list[int]) -> NoReturn:
        """In the child: its own process group, which takes what its environments start along when it is killed."""
        try:
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if self._context == "spawn":
                for file in files:
                    os.set_inheritable(file, True)
                line = command(worker.__name__, *files, self._id)
                os.execv(line[0], line)
            for file in (self._parent.detach(), self._woken, self._wake):
                os.close(file)
            channel, board, dump = files
            worker.main(channel, board, dump, self._id)
        finally:
            os._exit(1)

    def _report_ended(self) -> None:
        while self._numbers:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            try:
                self._report(ENDED, self._numbers.pop(process), process, os.waitstatus_to_exitcode(status))
            finally:  # a parent that hears nothing any more leaves the group to be ended all the same
                _end_group(process)

    def _report(self, what: bytes, number: int, process: int, status: int) -> None:
        self._parent.sendall(REPORT.pack(what, number, process, status))

    def _end_all(self) -> None:
        for process in self._numbers:
            _send(process, signal.SIGKILL, group=True)
        deadline = time.monotonic() + _REAP_S
        while self._numbers and time.monotonic() < deadline:
            with suppress(ChildProcessError):
                process, _ = os.waitpid(-1, os.WNOHANG)
                self._numbers.pop(process, None)
            time.sleep(0.002)


def _end_group(process: int) -> None:
    """End what an ended worker's environments left running, once the helpers of `multiprocessing` could clean up."""
    deadline = time.monotonic() + _GRACE_S
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGTERM)
        while time.monotonic() < deadline:
            time.sleep(0.002)
            os.killpg(process, 0)
        os.killpg(process, signal.SIGKILL)


def _send(process: int, number: signal.Signals, *, group: bool) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if group:
            os.killpg(process, number)
    with suppress(ProcessLookupError):
        os.kill(process, number)


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler instead of SIG_IGN: the programs that an environment starts do not inherit it."""
