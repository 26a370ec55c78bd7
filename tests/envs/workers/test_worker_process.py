"""A worker as a process: what it does before and after it serves, played in a fork of this one."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from steadyrl.envs.workers import worker as module


class Server:
    """In the place of a worker: writes what it finds, then does what it is told."""

    def __init__(self, end: Callable[[], Any]) -> None:
        self.end = end

    def __call__(self, channel: Any, board: int) -> Server:
        self.channel, self.files = channel, [channel.file, board]
        return self

    def serve(self) -> None:
        sys.stdout = os.fdopen(self.out, "w")
        found = {
            "files": self.files,
            "inheritable": [os.get_inheritable(file) for file in self.all],
            "handled": [
                signal.getsignal(number) is module._nothing
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
            ],
            "drawn": float(np.random.random()),
        }
        print(json.dumps(found))  # stays in the buffer
        self.end()

    all: list[int]
    out: int


def ran(end: Callable[[], Any], keeper: int | None = None) -> tuple[int, dict[str, Any], str]:
    """Exit status of a process that serves like this, what it found, and what is in its file for a stack."""
    import socket

    read, write = os.pipe()
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryFile() as board, tempfile.TemporaryFile() as dump:
        files = [theirs.fileno(), board.fileno(), dump.fileno()]
        parent = os.getpid()
        child = os.fork()
        if not child:
            try:
                for file in files:
                    os.set_inheritable(file, True)
                server = Server(end)
                server.all, server.out = files, write
                module.Worker = server  # type: ignore[misc,assignment]
                channel, memory, stack = map(str, files)
                module.main(channel, memory, stack, parent if keeper is None else keeper)
            finally:
                os._exit(99)
        os.close(write)
        ours.close()
        theirs.close()
        with os.fdopen(read) as pipe:
            said = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        dump.seek(0)
        return status, json.loads(said or "{}"), dump.read().decode()


def test_it_serves_with_its_own_files_and_leaves_signals_to_the_parent() -> None:
    status, found, stack = ran(lambda: None)
    assert (status, stack) == (0, "")
    assert found["inheritable"] == [False] * 3
    assert found["handled"] == [True] * 3
    assert found["files"][0] != found["files"][1]


@pytest.mark.parametrize("error", [EOFError, BrokenPipeError, ConnectionResetError])
def test_it_ends_without_a_word_when_the_parent_is_gone(error: type[Exception]) -> None:
    def gone() -> None:
        raise error

    status, found, stack = ran(gone)
    assert (status, stack, bool(found)) == (0, "", True)


def test_what_ends_it_leaves_a_stack() -> None:
    status, _, stack = ran(os.abort)
    assert status == -signal.SIGABRT
    assert "Aborted" in stack
    assert f'{__file__}", line' in stack


def test_two_of_them_draw_different_numbers() -> None:
    drawn = [ran(lambda: None)[1]["drawn"] for _ in range(2)]
    assert drawn[0] != drawn[1]


def test_one_that_another_process_has_taken_over_does_not_serve() -> None:
    assert ran(os.abort, keeper=-1)[:2] == (0, {})


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_the_system_is_asked_to_end_it_with_its_parent() -> None:
    parent = os.getpid()
    child = os.fork()
    if not child:
        number = ctypes.c_int()
        try:
            module.end_with(parent)
            ctypes.CDLL(None).prctl(2, ctypes.byref(number), 0, 0, 0)  # PR_GET_PDEATHSIG
        finally:
            os._exit(number.value)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == signal.SIGKILL
