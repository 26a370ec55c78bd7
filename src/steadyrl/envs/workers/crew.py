"""The workers as the parent sees them: started, spoken to, waited for no longer than allowed, and ended."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from steadyrl.envs.workers import keeper
from steadyrl.envs.workers.board import STARTING, Board
from steadyrl.envs.workers.channel import FAILED
from steadyrl.envs.workers.process import Loss, Process

LOST = b"x"  # kind of an answer that will not come, with a `Loss`

START_S = 60.0  # a new process may take this long until it makes its first environment: it imports Gymnasium
_STATUS_S = 2.0  # a connection breaks a moment before the exit status is known
_DUMP_S = 0.3  # a hanging process writes its stack in far less
_GRACE_S = 0.05  # for answers that are on their way where parent and workers had been stopped together


class Crew:
    """W workers and the process that keeps them.

    Args:
        context: How workers start.
        count: W.
        board: Where they say what they are doing.
        file: Its descriptor, which each worker gets.
        timeout: Seconds that an environment may take.
    """

    def __init__(self, context: keeper.Context, count: int, board: Board, file: int, timeout: float) -> None:
        self.processes: list[Process] = []
        self._board = board
        self._file = file
        self._timeout = timeout
        self._keeper, theirs = socket.socketpair()
        with theirs:
            program = subprocess.Popen(
                keeper.command(keeper.__name__, theirs.fileno(), context),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._poll = select.poll()
        self._poll.register(self._keeper.fileno(), select.POLLIN)
        self._by_file: dict[int, Process] = {}
        self._end = weakref.finalize(self, _end, program, self._keeper, self.processes, file, os.getpid())
        self._ended: set[int] = set()  # numbers of workers whose process has
        self._kept: list[tuple[int, bytes, Any]] = []  # answers that came while only others were awaited
        for number in range(count):
            self.start(number)

    def start(self, number: int) -> None:
        """Start this worker, in the place of the one before."""
        process = Process(number)
        self.processes[number : number + 1] = [process]
        self._ended.discard(number)
        self._board.begin(number, self._board.current[number], STARTING)
        files = [process.theirs.fileno(), self._file, process.dump]
        with suppress(OSError):
            socket.send_fds(self._keeper, [keeper.ORDER.pack(keeper.START, number)], files)
        process.theirs.close()
        process.channel.socket.settimeout(self._timeout)
        process.sent = time.monotonic()
        self._poll.register(process.channel.file, select.POLLIN)
        self._by_file[process.channel.file] = process

    def poke(self, kind: bytes) -> None:
        """Send a message without content to every worker."""
        now = time.monotonic()
        for process in self.processes:
            process.sent = now
            with suppress(OSError):  # what became of it is found out where its answer is awaited
                process.channel.poke(kind)

    def say(self, number: int, kind: bytes, content: Any) -> None:
        """Send a message with content.

        Raises:
            Exception: whatever keeps the content from being pickled.
        """
        process = self.processes[number]
        process.sent = time.monotonic()
        with suppress(OSError):
            process.channel.say(kind, content)

    def answers(
        self, awaited: set[int], limit: float | None = None, *, stacks: bool = True
    ) -> Iterator[tuple[int, bytes, Any]]:
        """Each worker's answer as it comes: its number, kind and content.

        Args:
            awaited: The workers; one leaves the set with its last answer, which is any but FAILED.
            limit: Seconds that they have, where that is not what an environment may take.
            stacks: Those that do not answer are ended by a signal that makes them tell where they are.
        """
        allowed = self._timeout if limit is None else limit
        until = time.monotonic() + allowed
        while awaited:
            # While one was replaced, others may have answered or ended: nothing more would wake the poll for those.
            known = bool(awaited & self._ended) or any(answered[0] in awaited for answered in self._kept)
            ready = self._poll.poll(0.0 if known else 1e3 * max(0.0, until - time.monotonic()))
            if not ready and not known:
                ready = self._poll.poll(1e3 * _GRACE_S)
            for file, _ in ready:
                process = self._by_file.get(file)
                if process is None:
                    self._hear()
                else:
                    self._take(process)
            for number in awaited & self._ended:  # its last words may have come since
                self._take(self.processes[number])
            for answered in [answered for answered in self._kept if answered[0] in awaited]:
                if answered[0] not in awaited:  # this one is the answer to a later message
                    continue
                self._kept.remove(answered)
                if answered[1] != FAILED:
                    awaited.discard(answered[0])
                yield answered
            if self._ended:
                yield from self._dead(awaited)
            if not ready and not known:
                for number in [n for n in awaited if self._left(n, limit) <= 0.0]:
                    awaited.discard(number)
                    yield number, LOST, self._hanging(self.processes[number], stacks)
                until = time.monotonic() + min((self._left(n, limit) for n in awaited), default=0.0)

    def kill(self, number: int) -> None:
        """End this worker and whatever it started."""
        process = self.processes[number]
        self._order(keeper.KILL, process)
        self._until_ended(process, _STATUS_S)
        self._forget(process)
        process.close()

    def close(self) -> None:
        """End every worker and the process that kept them, and give everything back."""
        self._end()
        for process in self.processes:
            process.status = -signal.SIGKILL if process.status is None else process.status

    @property
    def closed(self) -> bool:
        """Whether everything has ended."""
        return not self._end.alive

    def await_ids(self) -> None:
        """Wait until the process ids of all workers are known."""
        deadline = time.monotonic() + _STATUS_S
        while any(p.pid is None and p.status is None for p in self.processes) and time.monotonic() < deadline:
            self._listen(0.1)

    def _take(self, process: Process) -> None:
        """Read what this worker has sent, and keep the answers that are complete."""
        if process.channel.file not in self._by_file:
            return
        try:
            answers = process.channel.take()
        except BlockingIOError:
            return
        except (EOFError, ConnectionError):
            self._forget(process)
            self._until_ended(process, _STATUS_S)
            return
        except Exception as error:  # its pickle cannot be undone here
            answers = [(FAILED, error)]
        self._kept += [(process.number, *answer) for answer in answers]

    def _dead(self, awaited: set[int]) -> Iterator[tuple[int, bytes, Any]]:
        for number in sorted(awaited & self._ended):
            process = self.processes[number]
            awaited.discard(number)
            yield number, LOST, Loss(process.status, self._since(process), False, process.stack())

    def _hanging(self, process: Process, stacks: bool) -> Loss:
        waited = self._since(process)
        stopped = stacks and process.is_stopped()
        if stacks and not stopped:
            self._order(keeper.DUMP, process)
            self._until_ended(process, _DUMP_S)
        return Loss(None, waited, stopped, process.stack())

    def _since(self, process: Process) -> float:
        return time.monotonic() - max(process.sent, self._board.began[process.number])

    def _left(self, number: int, limit: float | None) -> float:
        if limit is None:
            limit = max(START_S, self._timeout) if self._board.phase[number] == STARTING else self._timeout
        return limit - self._since(self.processes[number])

    def _order(self, what: bytes, process: Process) -> None:
        if process.status is None:
            with suppress(OSError):
                self._keeper.sendall(keeper.ORDER.pack(what, process.number))

    def _until_ended(self, process: Process, limit: float) -> None:
        deadline = time.monotonic() + limit
        while process.status is None and (left := deadline - time.monotonic()) > 0:
            self._listen(left)

    def _listen(self, limit: float) -> None:
        if select.select([self._keeper], [], [], limit)[0]:
            self._hear()

    def _hear(self) -> None:
        """Take what the keeper reports; where it has ended, all workers have."""
        data = self._keeper.recv(keeper.REPORT.size)
        if len(data) < keeper.REPORT.size:
            with suppress(KeyError):
                self._poll.unregister(self._keeper.fileno())
            for process in self.processes:
                process.status = -signal.SIGKILL if process.status is None else process.status
                self._ended.add(process.number)
            return
        what, number, pid, status = keeper.REPORT.unpack(data)
        process = self.processes[number]
        if what == keeper.STARTED:
            process.pid = pid
        elif process.pid == pid:
            process.status = status
            self._ended.add(number)

    def _forget(self, process: Process) -> None:
        if self._by_file.pop(process.channel.file, None):
            self._poll.unregister(process.channel.file)


def _end(program: subprocess.Popen[bytes], line: socket.socket, processes: list[Process], file: int, pid: int) -> None:
    """Close everything; the keeper, whose socket is at its end then, ends the workers."""
    line.close()
    for process in processes:
        process.close()
    os.close(file)
    if os.getpid() != pid:  # a fork of the parent has copies of the descriptors, but no children here
        program.returncode = 0
        return
    try:
        program.wait(timeout=2 * _STATUS_S)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()
