"""The process that keeps the workers, without being one: what it does at each order, each end and its own."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from steadyrl.envs.workers import keeper as module
from steadyrl.envs.workers import worker
from steadyrl.envs.workers.keeper import DUMP, ENDED, KILL, ORDER, REPORT, START, STARTED, Keeper
from support.leftovers import until

LOOK_S, REAP_S = 1.0, 2.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD)


class Kept:
    """A keeper in this process, with the other end of its socket."""

    def __init__(self, context: str = "forkserver") -> None:
        self.parent, theirs = socket.socketpair()
        self.parent.settimeout(20)
        self.theirs = theirs
        self.keeper = Keeper(theirs, context)

    def order(self, what: bytes, number: int, files: list[int] | None = None) -> bool:
        socket.send_fds(self.parent, [ORDER.pack(what, number)], files or [])
        return self.keeper._take_order()

    def report(self) -> tuple[Any, ...]:
        return REPORT.unpack(self.parent.recv(4096))

    def close(self) -> None:
        self.parent.close()
        self.theirs.close()
        for file in (self.keeper._woken, self.keeper._wake):
            os.close(file)


@pytest.fixture
def kept() -> Iterator[Kept]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    kept = Kept()
    yield kept
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)
    kept.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """The signals that were sent, to a group or to a process; none arrives."""
    sent: list[tuple[str, int, int]] = []
    for name in ("kill", "killpg"):
        monkeypatch.setattr(os, name, lambda process, number, name=name: sent.append((name, process, int(number))))
    return sent


class Clock:
    """Stands still but for sleep."""

    def __init__(self) -> None:
        self.now, self.naps = 50.0, 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        self.naps += 1


def test_a_stack_is_asked_of_one_process_and_an_end_takes_its_group(
    kept: Kept, sent: list[tuple[str, int, int]]
) -> None:
    kept.keeper._numbers = {101: 0, 102: 1}
    assert kept.order(DUMP, 1)
    assert sent == [("kill", 102, signal.SIGABRT)]  # the programs of an environment have no stack to tell
    sent.clear()
    assert kept.order(KILL, 0)
    assert sent == [("killpg", 101, signal.SIGKILL), ("kill", 101, signal.SIGKILL)]
    sent.clear()
    assert kept.order(KILL, 7)
    assert sent == []


def test_one_that_has_ended_needs_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(process: int, number: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", none)
    monkeypatch.setattr(os, "killpg", none)
    module._send(101, signal.SIGKILL, group=True)
    module._end_group(101)


def test_a_worker_is_started_reported_and_its_files_are_its_own(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    grouped: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fork", lambda: 4242)
    monkeypatch.setattr(os, "setpgid", lambda process, group: grouped.append((process, group)))
    read, write = os.pipe()
    assert kept.order(START, 3, [write])
    os.close(write)
    assert select.select([read], [], [], 0)[0]  # at its end: no copy of the other is left here
    os.close(read)
    assert kept.report() == (STARTED, 3, 4242, 0)
    assert kept.keeper._numbers == {4242: 3}
    assert grouped == [(4242, 4242)]


@pytest.mark.parametrize("context", ["forkserver", "spawn"])
def test_what_a_worker_does_first(context: str, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its part of the fork, played in this process: `exec` and the worker's own code are noted instead.

    The keeper may have ended before: that its parent is another then is what tells the worker.
    """
    done: list[Any] = []

    def leave(status: int) -> None:
        done.append(("exit", status))
        raise SystemExit

    monkeypatch.setattr(os, "fork", lambda: 0)
    monkeypatch.setattr(os, "setpgid", lambda process, group: done.append(("group", process, group)))
    monkeypatch.setattr(os, "execv", lambda program, line: done.append(("exec", program, line[-4:])))
    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(worker, "main", lambda *arguments: done.append(("main", *arguments)))
    kept.keeper._context = context
    files = [os.dup(0) for _ in range(3)]
    with pytest.raises(SystemExit):
        kept.keeper._start(1, files)
    assert (done[0], done[-1]) == (("group", 0, 0), ("exit", 1))
    started = done[1]
    if context == "spawn":
        assert started[:2] == ("exec", sys.executable)
        assert started[2] == [*map(str, files), str(os.getpid())]
        assert all(os.get_inheritable(file) for file in files)
    else:
        assert started == ("main", *files, os.getpid())
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
    assert signal.set_wakeup_fd(-1) == -1
    for file in (kept.keeper._woken, kept.keeper._wake):  # the parent's are none of the worker's
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file)
    assert kept.theirs.fileno() == -1
    kept.keeper._woken, kept.keeper._wake = os.pipe()
    for file in files:
        os.close(file)


@pytest.mark.parametrize("end", ["exit 3", "kill -9 $$"])
def test_an_end_is_reported_with_its_status(end: str, kept: Kept) -> None:
    child = subprocess.Popen(["sh", "-c", end])
    kept.keeper._numbers = {child.pid: 2}
    assert until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE, 20)
    kept.keeper._report_ended()
    assert kept.report() == (ENDED, 2, child.pid, 3 if end == "exit 3" else -9)
    assert kept.keeper._numbers == {}
    child.returncode = 0  # it has been waited for here


def test_what_a_worker_started_ends_too_where_the_parent_hears_nothing_any_more(kept: Kept) -> None:
    """A worker that ends at the moment at which the parent closes the connection."""
    line = "sleep 600 >/dev/null & echo $!"
    child = subprocess.Popen(["sh", "-c", line], stdout=subprocess.PIPE, process_group=0, text=True)
    assert child.stdout is not None
    left = psutil.Process(int(child.stdout.read()))
    kept.keeper._numbers = {child.pid: 0}
    kept.parent.close()
    assert until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE, 20)
    kept.keeper.run()
    child.returncode = 0  # it has been waited for here
    child.stdout.close()
    assert until(lambda: not left.is_running() or left.status() == psutil.STATUS_ZOMBIE, 20)


def test_who_still_runs_is_not_reported(kept: Kept) -> None:
    child = subprocess.Popen(["sleep", "600"])
    kept.keeper._numbers = {child.pid: 2}
    kept.keeper._report_ended()
    assert kept.keeper._numbers == {child.pid: 2}
    assert not select.select([kept.parent], [], [], 0)[0]
    child.kill()
    child.wait()


def test_it_ends_with_the_connection(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(kept.keeper, "_end_all", lambda: ended.append(1))
    kept.parent.close()
    kept.keeper.run()
    assert ended == [1]


def test_it_ends_when_it_has_another_parent_even_if_the_connection_is_open(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def nothing(reading: list[int], _: Any, __: Any, limit: float) -> tuple[list[int], list[int], list[int]]:
        looks.append(limit)
        monkeypatch.setattr(os, "getppid", lambda: -1)
        return [], [], []

    monkeypatch.setattr(select, "select", nothing)
    kept.keeper.run()
    assert looks == [LOOK_S]


def test_an_order_is_taken_and_a_signal_wakes_it(kept: Kept, sent: list[tuple[str, int, int]]) -> None:
    kept.keeper._numbers = {}
    os.write(kept.keeper._wake, b"x")
    kept.parent.sendall(ORDER.pack(KILL, 0))
    kept.parent.shutdown(socket.SHUT_WR)
    kept.keeper.run()
    assert not select.select([kept.keeper._woken], [], [], 0)[0]


def test_in_the_end_all_workers_are_ended_and_waited_for(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    children = [subprocess.Popen(["sleep", "600"], process_group=0) for _ in range(2)]
    kept.keeper._numbers = {child.pid: i for i, child in enumerate(children)}
    kept.keeper._end_all()
    assert kept.keeper._numbers == {}
    for child in children:
        with pytest.raises(ChildProcessError):
            os.waitpid(child.pid, os.WNOHANG)
        child.returncode = 0


def test_who_does_not_end_is_not_waited_for_longer_than_seconds(
    kept: Kept, sent: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(os, "waitpid", lambda process, how: (0, 0))
    kept.keeper._numbers = {101: 0}
    kept.keeper._end_all()
    assert sent == [("killpg", 101, signal.SIGKILL), ("kill", 101, signal.SIGKILL)]
    assert clock.now - 50.0 == pytest.approx(REAP_S, abs=0.01)
    kept.keeper._numbers = {}
    clock.naps = 0
    kept.keeper._end_all()
    assert clock.naps == 0


TRAP = "trap {} TERM; echo ready; while :; do sleep 0.02; done"


@pytest.mark.parametrize(("trap", "status", "grace"), [("'exit 5'", 5, 60.0), ("''", -signal.SIGKILL, 0.2)])
def test_what_environments_started_may_clean_up_and_then_ends(
    trap: str, status: int, grace: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GRACE_S", grace)  # a busy machine may take long to let it clean up
    program = subprocess.Popen(["sh", "-c", TRAP.format(trap)], process_group=0, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    with program:
        assert program.stdout.readline() == "ready\n"
        reaper = threading.Thread(target=program.wait)
        reaper.start()
        module._end_group(program.pid)
        reaper.join(20)
        assert program.returncode == status


def test_a_group_that_is_gone_at_once_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    sent: list[int] = []

    def send(group: int, number: int) -> None:
        sent.append(int(number))
        if len(sent) == 3:
            raise ProcessLookupError

    monkeypatch.setattr(os, "killpg", send)
    module._end_group(101)
    assert sent == [signal.SIGTERM, 0, 0]
    assert clock.naps == 2


def test_a_group_that_stays_is_killed_after_a_moment(
    sent: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    module._end_group(101)
    assert [number for _, _, number in sent if number] == [signal.SIGTERM, signal.SIGKILL]
    assert {process for _, process, _ in sent} == {101}
    assert clock.now - 50.0 == pytest.approx(0.2, abs=0.01)


def test_its_command_runs_a_module_with_the_same_path() -> None:
    done = subprocess.run(
        module.command("support.echo_main", 1, "two"), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "('1', 'two')\n", "")


def test_a_child_that_changes_wakes_it(kept: Kept) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert select.select([kept.keeper._woken], [], [], 20)[0]
    assert not os.get_blocking(kept.keeper._wake)
