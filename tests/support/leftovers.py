"""What a process must not leave behind: children, zombies, shared memory, open files."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

PATIENCE_S = 20.0  # what is tested is that it happens; a machine may be busy


def until(true: Callable[[], bool], patience: float = PATIENCE_S) -> bool:
    """Whether it becomes true in time."""
    deadline = time.monotonic() + patience
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def family() -> set[int]:
    """Process ids of this process's children and theirs, zombies included."""
    return {child.pid for child in psutil.Process().children(recursive=True)}


def open_files() -> dict[int, str]:
    """What each descriptor of this process leads to."""
    found = {}
    for entry in os.listdir("/proc/self/fd") if sys.platform == "linux" else ():
        try:
            found[int(entry)] = os.readlink(f"/proc/self/fd/{entry}")
        except OSError:
            continue  # the descriptor of the listing itself
    return found


def shared_memory() -> set[str]:
    """Named shared memory and semaphores that this process or one of its children has mapped.

    What is in none of them while they live, none of them can leave behind. The names themselves cannot be compared:
    other programs' come and go.
    """
    found = set()
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        for part in process.memory_maps():
            if part.path.startswith("/dev/shm/"):
                found.add(part.path)
    return found


@contextmanager
def nothing_left(patience: float = PATIENCE_S) -> Iterator[None]:
    """Afterwards, within these seconds, there is no new child, zombie or open file."""
    children, files = family(), open_files()
    yield
    gc.collect()
    assert until(lambda: family() <= children, patience), [psutil.Process(pid) for pid in family() - children]
    assert until(lambda: open_files().keys() <= files.keys(), patience), open_files()


def gone(pids: set[int]) -> bool:
    """Whether none of these runs; one that has ended and that the system's first process will collect is gone."""
    for pid in pids:
        try:
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE or process.ppid() != 1:
                return False
        except psutil.NoSuchProcess:
            continue
    return True
