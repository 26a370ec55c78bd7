"""Signals set a flag; the loop ends at the next vector step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STATUS = {"SIGINT": "interrupted", "SIGTERM": "preempted", "SIGUSR1": "preempted"}


class StopFlag:
    """Whether, and why, the run should end: a signal's name, or `stopped` by a callback."""

    def __init__(self) -> None:
        self.reason = ""

    @property
    def status(self) -> str:
        """The run's status in the manifest."""
        return STATUS.get(self.reason, "stopped")


@contextmanager
def signals_stop(flag: StopFlag) -> Iterator[None]:
    """SIGINT, SIGTERM and SIGUSR1 set the flag inside; a second SIGINT ends at once. For the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def set_flag(number: int, frame: FrameType | None) -> None:
        flag.reason = flag.reason or signal.Signals(number).name
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    names = [name for name in STATUS if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), set_flag) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
