"""One worker as the parent sees it."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from steadyrl.envs.workers.board import anonymous_file
from steadyrl.envs.workers.channel import Channel


@dataclass(frozen=True)
class Loss:
    """Why a worker does not answer.

    Attributes:
        status: Its exit status, negative for a signal; None where it runs and hangs.
        waited: Seconds since its environment began what it was doing.
        stopped: It hangs because a signal stopped it.
        stack: Where its code was, as far as that could be found out.
    """

    status: int | None
    waited: float
    stopped: bool
    stack: str


class Process:
    """One worker.

    Attributes:
        number: Its own number, from 0.
        pid: Its process id; None until it is known.
        status: Its exit status, negative for a signal; None while it runs.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid: int | None = None
        self.status: int | None = None
        self.sent = 0.0
        ours, self.theirs = socket.socketpair()
        self.channel = Channel(ours)
        self.dump = anonymous_file()

    def is_alive(self) -> bool:
        """Whether it still runs, as far as is known."""
        return self.status is None

    def close(self) -> None:
        """Give back what belongs to it here."""
        self.theirs.close()
        self.channel.close()
        if self.dump >= 0:
            os.close(self.dump)
        self.dump = -1

    def is_stopped(self) -> bool:
        """Whether a signal has stopped it."""
        import psutil

        try:
            return self.pid is not None and psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        except psutil.Error:
            return False

    def stack(self) -> str:
        """Where its code was when a fault ended it, as the fault handler wrote it."""
        return os.pread(self.dump, 1 << 16, 0).decode(errors="replace") if self.dump >= 0 else ""
