"""How long the crew waits, and for whom: with a clock that only waiting moves, and a keeper that is a socket."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from steadyrl.envs.workers import crew as module
from steadyrl.envs.workers import keeper
from steadyrl.envs.workers.board import IDLE, STARTING, Board, anonymous_file
from steadyrl.envs.workers.channel import DONE, Channel
from steadyrl.envs.workers.crew import LOST, Crew

TIMEOUT_S = 0.3
GRACE_S = 0.05
START_S = 60.0


class Clock:
    """Stands still but for waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Poll:
    """Notes each wait, which lasts as long as it may unless something is prepared for it."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.waits: list[float] = []
        self.prepared: list[list[int]] = []  # the descriptors that are ready, for each wait
        self.known: set[int] = set()

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        self.waits.append(milliseconds / 1e3)
        ready = self.prepared.pop(0) if self.prepared else []
        if not ready:
            self.clock.now += milliseconds / 1e3
        return [(file, 1) for file in ready]

    def register(self, file: int, events: int) -> None:
        self.known.add(file)

    def unregister(self, file: int) -> None:
        self.known.remove(file)


class Program:
    """In the place of the process that keeps the workers."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self.stubborn = stubborn
        self.asked: list[Any] = []
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        self.asked.append(timeout)
        if self.stubborn and timeout is not None:
            raise subprocess.TimeoutExpired("keeper", timeout)
        return 0

    def kill(self) -> None:
        self.asked.append("kill")


class Waiting:
    """A crew of two workers that have been started by a keeper of the test's own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, timeout: float) -> None:
        self.clock, self.program = Clock(), Program()
        self.poll = Poll(self.clock)
        self.keeper: socket.socket

        def popen(command: list[str], *, pass_fds: list[int], stdin: int) -> Program:
            self.keeper = socket.socket(fileno=os.dup(pass_fds[0]))
            return self.program

        monkeypatch.setattr(subprocess, "Popen", popen)
        monkeypatch.setattr(select, "poll", lambda: self.poll)
        monkeypatch.setattr(module, "time", self.clock)
        file = anonymous_file(Board.size(2, 2))
        self.board = Board(file, 2, 2)
        self.crew = Crew("forkserver", 2, self.board, file, timeout)
        monkeypatch.undo()
        monkeypatch.setattr(module, "time", self.clock)
        self.theirs: list[Channel] = []
        for number, process in enumerate(self.crew.processes):
            _, files, _, _ = socket.recv_fds(self.keeper, keeper.ORDER.size, 3)
            self.theirs.append(Channel(socket.socket(fileno=files[0])))
            for own in files[1:]:
                os.close(own)
            process.pid = 100 + number
            self.board.began[number] = self.clock.now
        self.files = [process.channel.file for process in self.crew.processes]

    def at_work(self, number: int) -> None:
        self.board.phase[number] = IDLE

    def report(self, what: bytes, number: int, pid: int, status: int) -> None:
        self.keeper.sendall(keeper.REPORT.pack(what, number, pid, status))

    def close(self) -> None:
        self.crew.close()
        self.board.close()
        self.keeper.close()
        for channel in self.theirs:
            channel.close()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiting]:
    made = Waiting(monkeypatch, TIMEOUT_S)
    yield made
    made.close()


@pytest.mark.parametrize("timeout", [TIMEOUT_S, 2 * START_S])
def test_a_process_has_a_minute_to_start_or_what_an_environment_has(
    timeout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Waiting(monkeypatch, timeout)
    assert made.board.phase[0] == STARTING
    start = made.clock.now
    ((number, kind, loss),) = made.crew.answers({0}, stacks=False)
    assert (number, kind) == (0, LOST)
    longest = max(timeout, START_S)
    assert loss.waited == pytest.approx(longest + GRACE_S)
    assert made.clock.now - start == pytest.approx(longest + GRACE_S)
    # After each wait comes a short one for what is on its way.
    rest = [longest - timeout - GRACE_S, GRACE_S] if longest > timeout else []
    assert made.poll.waits == pytest.approx([timeout, GRACE_S, *rest])
    made.close()


def test_an_answer_that_was_on_its_way_is_no_hang(made: Waiting) -> None:
    made.at_work(0)
    made.theirs[0].poke(DONE)
    made.poll.prepared = [[], [made.files[0]]]  # parent and worker had been stopped together
    assert list(made.crew.answers({0}, stacks=False)) == [(0, DONE, None)]
    assert made.poll.waits == pytest.approx([TIMEOUT_S, GRACE_S])


def test_an_answer_in_time_is_waited_for_once(made: Waiting) -> None:
    for number in (0, 1):
        made.at_work(number)
        made.theirs[number].poke(DONE)
    made.poll.prepared = [[made.files[1]], [made.files[0]]]
    assert list(made.crew.answers({0, 1})) == [(1, DONE, None), (0, DONE, None)]
    assert made.poll.waits == pytest.approx([TIMEOUT_S] * 2)


def test_what_is_known_already_is_not_waited_for(made: Waiting) -> None:
    for number in (0, 1):
        made.at_work(number)
        made.theirs[number].poke(DONE)
    made.poll.prepared = [[made.files[0], made.files[1]]]
    assert list(made.crew.answers({0})) == [(0, DONE, None)]
    made.poll.waits.clear()
    assert list(made.crew.answers({1})) == [(1, DONE, None)]
    assert made.poll.waits == [0.0]


def test_a_process_that_is_known_to_have_ended_is_not_waited_for(made: Waiting) -> None:
    made.report(keeper.ENDED, 1, 101, 7)
    made.at_work(0)
    made.theirs[0].poke(DONE)
    made.poll.prepared = [[made.crew._keeper.fileno()], [made.files[0]]]
    assert list(made.crew.answers({0})) == [(0, DONE, None)]
    made.poll.waits.clear()
    ((number, kind, loss),) = made.crew.answers({1})
    assert (number, kind, loss.status) == (1, LOST, 7)
    assert made.poll.waits == [0.0]


def test_one_that_is_slower_is_waited_for_as_long_as_it_may_take(made: Waiting) -> None:
    for number in (0, 1):
        made.at_work(number)
    made.board.began[1] = made.clock.now + 0.2  # its environment began later
    found = [(number, kind, made.clock.now) for number, kind, _ in made.crew.answers({0, 1}, stacks=False)]
    assert [(number, kind) for number, kind, _ in found] == [(0, LOST), (1, LOST)]
    assert [now for _, _, now in found] == pytest.approx([1000.0 + TIMEOUT_S + GRACE_S, 1000.2 + TIMEOUT_S + GRACE_S])


def test_nobody_is_waited_for_when_nobody_is_awaited(made: Waiting) -> None:
    assert list(made.crew.answers(set())) == []
    assert made.poll.waits == []


def test_a_reported_end_is_believed_of_the_process_that_it_names(made: Waiting) -> None:
    made.report(keeper.ENDED, 0, 99, 7)  # of the one before
    made.crew._hear()
    assert made.crew._ended == set()
    made.report(keeper.STARTED, 0, 55, 0)
    made.crew._hear()
    made.report(keeper.ENDED, 0, 55, -9)
    made.crew._hear()
    assert (made.crew.processes[0].pid, made.crew.processes[0].status) == (55, -9)
    assert made.crew._ended == {0}


def test_closing_waits_seconds_for_the_keeper_then_ends_it(made: Waiting) -> None:
    made.program.stubborn = True
    made.crew.close()
    assert made.program.asked == [4.0, "kill", None]
    assert [process.status for process in made.crew.processes] == [-signal.SIGKILL] * 2
    assert made.keeper.recv(1) == b""  # by which a keeper knows


def test_a_keeper_that_ends_is_not_killed(made: Waiting) -> None:
    made.crew.close()
    assert made.program.asked == [4.0]
    assert made.program.returncode is None  # for `wait` to set


def test_a_fork_of_the_parent_neither_waits_nor_kills() -> None:
    program: Any = Program(stubborn=True)
    line, theirs = socket.socketpair()
    module._end(program, line, [], anonymous_file(), os.getpid() + 1)
    assert (program.asked, program.returncode) == ([], 0)  # else its destructor warns of a running process
    assert theirs.recv(1) == b""
    theirs.close()


def test_orders_go_to_processes_that_run(made: Waiting) -> None:
    made.crew.processes[0].status = 0
    made.crew._order(keeper.DUMP, made.crew.processes[0])
    made.crew._order(keeper.KILL, made.crew.processes[1])
    assert keeper.ORDER.unpack(made.keeper.recv(4096)) == (keeper.KILL, 1)
