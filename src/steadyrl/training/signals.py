"""Signals end a run in good order: in its loop they set a flag, around it they raise, while it writes they wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from steadyrl.errors import Ending

STATUS = {"SIGINT": "interrupted", "SIGTERM": "preempted", "SIGUSR1": "preempted"}


class Signalled(Ending):
    """A signal came where there is no step to finish first."""

    name = "SIGINT"

    @property
    def status(self) -> str:
        """The run's status in the manifest."""
        return STATUS[self.name]

    @property
    def exit_status(self) -> int:
        """As a shell reports a program that the signal ended."""
        return 128 + int(getattr(signal, self.name))


class Interrupted(Signalled, KeyboardInterrupt):
    """SIGINT."""


class Preempted(Signalled, SystemExit):
    """SIGTERM or SIGUSR1; a script that lets it pass ends with the status of the signal."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
        self.code = self.exit_status


def signalled(name: str) -> Signalled:
    """The exception for a signal."""
    return Interrupted(name) if name == "SIGINT" else Preempted(name)


class StopFlag:
    """Whether, and why, the run should end: a signal's name, or `stopped` by a callback."""

    def __init__(self) -> None:
        self.reason = ""

    def set(self) -> None:
        """The run should end, as a callback ends it, unless a signal came before."""
        self.reason = self.reason or "callback"

    @property
    def status(self) -> str:
        """The run's status in the manifest."""
        return STATUS.get(self.reason, "stopped")


class Guard:
    """What is known of the signals while `signals_raise` is in force.

    Attributes:
        reason: The first signal that came.
        in_loop: The training loop saw to it.
        closing: The loop is over: signals wait until the run folder is complete.
        held: How many blocks of `signals_held` run.
    """

    def __init__(self) -> None:
        self.reason = ""
        self.in_loop = False
        self.closing = False
        self.held = 0

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The handler: raises unless the signal has to wait, or an earlier one ends everything already."""
        first, self.reason = not self.reason, self.reason or signal.Signals(number).name
        again = not first and number == signal.SIGINT
        if not self.held and (again or (first and not self.closing)):
            raise signalled(self.reason)

    def release(self) -> None:
        """The run folder is complete: what waited is raised, and so is what foreign code swallowed."""
        self.closing = False
        if self.reason and not self.in_loop:
            raise signalled(self.reason)


_guard: Guard | None = None
_for_good = False


@contextmanager
def signals_raise() -> Iterator[Guard]:
    """SIGINT, SIGTERM and SIGUSR1 raise `Signalled` inside. In other threads than the main one nothing changes."""
    global _guard
    if threading.current_thread() is not threading.main_thread():
        yield Guard()
        return
    if _guard is not None:
        yield _guard
        return
    guard = Guard()
    before = _install(guard.handle)
    _guard = guard
    try:
        yield guard
    except Exception as error:
        if guard.reason and not guard.in_loop:
            raise signalled(guard.reason) from error  # foreign code made another error of it
        raise
    finally:
        _guard = None
        if guard.reason and _for_good:  # between here and the end of the process one more would change its status
            ignore_signals()
        else:
            _restore(before)


def end_for_good() -> None:
    """The process ends with what it does now: once a signal has ended that, no further one is answered."""
    global _for_good
    _for_good = True


@contextmanager
def signals_held() -> Iterator[None]:
    """A signal of `signals_raise` waits until the end of this block, which has to be short."""
    guard = _guard
    if guard is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = guard.reason
    guard.held += 1
    try:
        yield
    finally:
        guard.held -= 1
    if guard.reason and not before and not guard.closing:
        raise signalled(guard.reason)


def release() -> None:
    """`Guard.release` of the guard in force, if there is one."""
    if _guard is not None and threading.current_thread() is threading.main_thread():
        _guard.release()


@contextmanager
def signals_stop(flag: StopFlag) -> Iterator[None]:
    """SIGINT, SIGTERM and SIGUSR1 set the flag inside; a second SIGINT ends at once. For the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def set_flag(number: int, frame: FrameType | None) -> None:
        flag.reason = flag.reason or signal.Signals(number).name
        if _guard is not None:
            _guard.reason, _guard.in_loop = _guard.reason or flag.reason, True
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    before = _install(set_flag)
    try:
        yield
    finally:
        if _guard is not None:
            _guard.closing = True
        _restore(before)


def ignore_signals() -> None:
    """For the last lines of a process that a signal ended."""
    _install(signal.SIG_IGN)


def _install(handler: object) -> dict[str, object]:
    names = [name for name in STATUS if hasattr(signal, name)]
    return {name: signal.signal(getattr(signal, name), handler) for name in names}  # type: ignore[arg-type]


def _restore(handlers: dict[str, object]) -> None:
    for name, handler in handlers.items():
        # None stands for a handler that was not set from Python, which Python cannot set again.
        signal.signal(getattr(signal, name), signal.SIG_DFL if handler is None else handler)  # type: ignore[arg-type]
