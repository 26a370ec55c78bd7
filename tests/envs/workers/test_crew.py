"""The crew alone: what it makes of answers, of silence and of processes that ended. Its workers are given nothing."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from steadyrl.envs.workers import crew as module
from steadyrl.envs.workers.board import IDLE, STARTING, STEP, Board, anonymous_file
from steadyrl.envs.workers.channel import CALL, DONE, FAILED, TOLD, Channel, packed
from steadyrl.envs.workers.channel import STEP as STEP_MESSAGE
from steadyrl.envs.workers.crew import LOST, Crew
from support.leftovers import gone, nothing_left, until

TIMEOUT_S = 0.3


class Made:
    """A crew of two workers, with the board on which they write."""

    def __init__(self) -> None:
        file = anonymous_file(Board.size(2, 2))
        self.board = Board(file, 2, 2)
        self.crew = Crew("forkserver", 2, self.board, file, TIMEOUT_S)
        self.known()
        self.kept: list[Any] = []

    def known(self) -> None:
        """Wait for the ids, longer than the crew does: a busy machine takes seconds to start a process."""
        for _ in range(10):
            self.crew.await_ids()
            if all(process.pid for process in self.crew.processes):
                return

    @property
    def pids(self) -> list[int]:
        return [process.pid or 0 for process in self.crew.processes]

    def spoken_for(self, number: int) -> Channel:
        """The other end of a connection in the place of a worker's own, which is only kept open."""
        crew, process = self.crew, self.crew.processes[number]
        crew._forget(process)
        self.kept.append(process.channel)
        ours, theirs = socket.socketpair()
        ours.settimeout(TIMEOUT_S)
        process.channel = Channel(ours)
        crew._poll.register(ours.fileno(), select.POLLIN)
        crew._by_file[ours.fileno()] = process
        self.kept.append(Channel(theirs))
        self.board.begin(number, number, STEP)
        found: Channel = self.kept[-1]
        return found

    def close(self) -> None:
        self.crew.close()
        self.board.close()
        for channel in self.kept:
            channel.close()


@pytest.fixture
def made() -> Iterator[Made]:
    with nothing_left():
        made = Made()
        yield made
        made.close()


def listens(pid: int) -> bool:
    """Whether a worker has set up what writes its stack where SIGABRT ends it."""
    if sys.platform != "linux":
        time.sleep(1.0)
        return True
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(line for line in lines if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGABRT - 1) & 1)


def test_each_worker_has_a_process_that_ends_with_the_crew(made: Made) -> None:
    pids = made.pids
    assert len(set(pids)) == 2
    assert all(psutil.Process(pid).is_running() for pid in pids)
    assert [process.number for process in made.crew.processes] == [0, 1]
    assert list(made.board.phase) == [STARTING, STARTING]
    assert not made.crew.closed
    made.crew.close()
    assert until(lambda: gone(set(pids)))
    assert made.crew.closed
    assert [process.status for process in made.crew.processes] == [-signal.SIGKILL] * 2
    made.crew.close()


def test_one_is_ended_and_another_takes_its_place(made: Made) -> None:
    first, other = made.pids
    made.crew.kill(0)
    assert made.crew.processes[0].status == -signal.SIGKILL
    assert until(lambda: gone({first}))
    made.crew.start(0)
    made.known()
    assert made.pids[1] == other
    assert made.pids[0] not in (first, other)
    assert len(made.crew.processes) == 2
    assert all(process.is_alive() for process in made.crew.processes)
    ours = made.spoken_for(0)
    ours.poke(DONE)
    assert list(made.crew.answers({0})) == [(0, DONE, None)]


def test_the_end_of_the_one_before_is_not_that_of_its_successor(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STATUS_S", 0.0)
    first = made.pids[0]
    made.crew.kill(0)  # its end is not heard of yet
    made.crew.start(0)
    monkeypatch.undo()
    made.known()
    assert until(lambda: gone({first}), 20)
    list(made.crew.answers({0}, 0.5, stacks=False))  # hears of it now
    assert (made.crew.processes[0].status, made.pids[0] != first) == (None, True)


def test_answers_come_as_they_are_until_nobody_is_awaited(made: Made) -> None:
    one, two = made.spoken_for(0), made.spoken_for(1)
    one.say(TOLD, "first")
    awaited = {0, 1}
    found = []
    for answer in made.crew.answers(awaited):
        found.append((answer, set(awaited)))
        if answer[0] == 0:
            two.poke(DONE)
    assert found == [((0, TOLD, "first"), {1}), ((1, DONE, None), set())]


def test_a_failure_is_no_last_answer(made: Made) -> None:
    one = made.spoken_for(0)
    one.say(FAILED, "why")
    awaited = {0}
    answers = made.crew.answers(awaited)
    assert next(answers) == (0, FAILED, "why")
    assert awaited == {0}
    one.say(TOLD, "after all")
    assert list(answers) == [(0, TOLD, "after all")]


def test_what_others_say_meanwhile_is_kept_and_one_answer_is_given_at_a_time(made: Made) -> None:
    one, two = made.spoken_for(0), made.spoken_for(1)
    two.say(TOLD, 1)
    two.say(TOLD, 2)
    one.poke(DONE)
    assert list(made.crew.answers({0})) == [(0, DONE, None)]
    assert list(made.crew.answers({1})) == [(1, TOLD, 1)]
    assert list(made.crew.answers({1})) == [(1, TOLD, 2)]


def test_an_answer_in_pieces_is_one(made: Made) -> None:
    one = made.spoken_for(0)
    whole = packed(TOLD, "x" * 50)
    one.socket.sendall(whole[:20])
    threading.Timer(0.05, one.socket.sendall, [whole[20:]]).start()
    assert list(made.crew.answers({0})) == [(0, TOLD, "x" * 50)]


def test_what_cannot_be_read_here_is_a_failure(made: Made) -> None:
    one = made.spoken_for(0)
    one.socket.sendall(TOLD + (5).to_bytes(8, "little") + b"nonon")
    number, kind, content = next(made.crew.answers({0}))
    assert (number, kind) == (0, FAILED)
    assert isinstance(content, Exception)


def test_who_ended_is_told_with_the_status_and_its_stack(made: Made) -> None:
    os.kill(made.pids[0], signal.SIGKILL)
    ((number, kind, loss),) = made.crew.answers({0})
    assert (number, kind, loss.status, loss.stopped, loss.stack) == (0, LOST, -signal.SIGKILL, False, "")
    assert loss.waited >= 0.0
    assert until(lambda: listens(made.pids[1]), 20)
    os.kill(made.pids[1], signal.SIGABRT)
    awaited = {1}
    ((number, kind, loss),) = made.crew.answers(awaited)
    assert (number, kind, loss.status, awaited) == (1, LOST, -signal.SIGABRT, set())
    assert "worker.py" in loss.stack


def test_both_that_ended_are_told_in_order(made: Made) -> None:
    for pid in reversed(made.pids):
        os.kill(pid, signal.SIGKILL)
    assert until(lambda: gone(set(made.pids)))
    assert [(number, kind) for number, kind, _ in made.crew.answers({0, 1})] == [(0, LOST), (1, LOST)]


def test_last_words_come_before_the_end(made: Made) -> None:
    one = made.spoken_for(0)
    os.kill(made.pids[0], signal.SIGKILL)
    assert until(lambda: gone({made.pids[0]}))
    made.crew._until_ended(made.crew.processes[0], 2.0)
    one.say(TOLD, "farewell")
    assert list(made.crew.answers({0})) == [(0, TOLD, "farewell")]
    ((number, kind, loss),) = made.crew.answers({0})  # there is nothing more to read, and the other end is open
    assert (number, kind, loss.status) == (0, LOST, -signal.SIGKILL)


def test_who_is_silent_too_long_tells_where_its_code_is(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_S", TIMEOUT_S)
    assert until(lambda: all(map(listens, made.pids)), 20)
    awaited = {0, 1}
    found = list(made.crew.answers(awaited))
    assert sorted((number, kind) for number, kind, _ in found) == [(0, LOST), (1, LOST)]
    assert awaited == set()
    for _, _, loss in found:
        assert (loss.status, loss.stopped) == (None, False)
        assert loss.waited >= TIMEOUT_S
        assert "worker.py" in loss.stack


def test_a_process_that_starts_has_its_own_time(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_S", 3 * TIMEOUT_S)
    ((_, _, loss),) = made.crew.answers({0}, stacks=False)
    assert loss.waited >= 3 * TIMEOUT_S
    made.board.phase[0] = IDLE
    made.crew.processes[0].sent = time.monotonic()
    ((_, _, loss),) = made.crew.answers({0}, stacks=False)
    assert loss.waited >= TIMEOUT_S
    made.crew.processes[0].sent = time.monotonic()
    ((_, _, loss),) = made.crew.answers({0}, 0.05, stacks=False)
    assert loss.waited >= 0.05


def test_a_stopped_process_is_known_as_one(made: Made) -> None:
    made.board.phase[0] = IDLE
    os.kill(made.pids[0], signal.SIGSTOP)
    ((_, _, loss),) = made.crew.answers({0})
    assert (loss.status, loss.stopped, loss.stack) == (None, True, "")


def test_where_no_stacks_are_wanted_the_process_lives_on(made: Made) -> None:
    made.board.phase[0] = IDLE
    ((_, _, loss),) = made.crew.answers({0}, stacks=False)
    assert (loss.status, loss.stopped, loss.stack) == (None, False, "")
    assert psutil.Process(made.pids[0]).is_running()
    assert made.crew.processes[0].is_alive()


def test_time_counts_from_the_environment_that_is_at_work(made: Made) -> None:
    made.spoken_for(0)
    made.crew.processes[0].sent = made.board.began[0] = time.monotonic() - 100
    start = time.monotonic()
    threading.Timer(0.5 * TIMEOUT_S, made.board.begin, [0, 0, STEP]).start()
    made.crew.processes[0].sent = start
    ((_, _, loss),) = made.crew.answers({0}, stacks=False)
    assert TIMEOUT_S <= loss.waited < 50
    assert time.monotonic() - start >= 1.5 * TIMEOUT_S  # not the end of a wait that began with the message


def test_a_message_to_the_dead_is_no_error(made: Made) -> None:
    for pid in made.pids:
        os.kill(pid, signal.SIGKILL)
    assert until(lambda: gone(set(made.pids)))
    made.crew.poke(STEP_MESSAGE)
    made.crew.say(0, CALL, np.zeros(1_000_000))
    assert [kind for _, kind, _ in made.crew.answers({0, 1})] == [LOST, LOST]
    with pytest.raises(TypeError, match="pickle"):
        made.crew.say(0, CALL, threading.Lock())


def test_messages_note_when_they_were_sent(made: Made) -> None:
    for process in made.crew.processes:
        process.sent = 0.0
    before = time.monotonic()
    ends = [made.spoken_for(number) for number in range(2)]
    made.crew.poke(STEP_MESSAGE)
    assert all(before <= process.sent <= time.monotonic() for process in made.crew.processes)
    assert [end.wait() for end in ends] == [(STEP_MESSAGE, None)] * 2
    made.crew.processes[1].sent = 0.0
    made.crew.say(1, CALL, "x")
    assert made.crew.processes[1].sent >= before
    assert ends[1].wait() == (CALL, "x")


def test_without_their_keeper_all_have_ended(made: Made) -> None:
    keeper = psutil.Process(made.pids[0]).parent()
    assert keeper is not None
    keeper.kill()
    found = list(made.crew.answers({0, 1}))
    assert [(number, kind, loss.status) for number, kind, loss in found] == [(0, LOST, -9), (1, LOST, -9)]
    made.crew.kill(0)  # is of no use, but no error
    assert until(lambda: gone(set(made.pids)), 20)


def test_a_connection_that_breaks_before_the_status_is_known(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STATUS_S", 0.05)
    made.spoken_for(0).close()
    ((_, kind, loss),) = made.crew.answers({0}, stacks=False)
    assert (kind, loss.status) == (LOST, None)
    assert made.crew.processes[0].channel.file not in made.crew._by_file


def test_a_fork_of_the_parent_ends_nothing_of_its(made: Made) -> None:
    child = os.fork()
    if not child:
        try:
            made.crew.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert all(psutil.Process(pid).is_running() for pid in made.pids)
    assert not made.crew.closed


def test_a_keeper_that_does_not_end_is_ended(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STATUS_S", 0.05)
    keeper = psutil.Process(made.pids[0]).parent()
    assert keeper is not None
    keeper.suspend()
    made.crew.close()
    assert until(lambda: gone({keeper.pid, *made.pids}))


COPY = """
import os, time
import psutil
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.workers.vector import WorkerVectorEnv
from support.faults import Faulty
envs = WorkerVectorEnv(make_env_factory(Faulty), 1, workers=1)
children = [child.pid for child in psutil.Process().children(recursive=True)]
copy = os.fork()
if not copy:
    time.sleep(60)
    os._exit(0)
print(copy, *children, flush=True)
os._exit(0)
"""


def test_a_copy_of_the_connection_keeps_nothing_alive() -> None:
    """A program that the training forked has all its descriptors, and may outlive it."""
    with subprocess.Popen(
        [sys.executable, "-c", COPY],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as parent:
        assert parent.stdout is not None
        copy, *children = map(int, parent.stdout.readline().split())
        parent.wait(20)
        try:
            assert len(children) == 2
            assert until(lambda: gone(set(children)), 20)
            assert psutil.Process(copy).is_running()
        finally:
            os.kill(copy, signal.SIGKILL)
