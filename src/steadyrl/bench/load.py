"""CPU time and memory of this process and all its children."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

import psutil

_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)


def cpu_seconds() -> float:
    """CPU time of this process and its children that live, summed."""
    return _over_all(lambda process: sum(process.cpu_times()[:2]))


def memory_bytes() -> int:
    """Memory of this process and its children: what is shared counts by its share where the system tells (Linux), else
    resident."""
    gc.collect()
    return int(_over_all(_memory))


class Load:
    """CPU seconds a second over the turns in which it was watched."""

    def __init__(self) -> None:
        self._cpu = 0.0
        self._wall = 0.0

    def watch(self, turn: Callable[[], Any]) -> None:
        """Do one turn and add it."""
        cpu, wall = cpu_seconds(), perf_counter()
        turn()
        self._wall += perf_counter() - wall
        self._cpu += cpu_seconds() - cpu

    @property
    def cores(self) -> float:
        """Cores that were busy."""
        return max(self._cpu, 0.0) / self._wall if self._wall else 0.0


def _over_all(value: Callable[[psutil.Process], float]) -> float:
    own = psutil.Process()
    total = 0.0
    for process in [own, *own.children(recursive=True)]:
        with suppress(*_GONE):
            total += value(process)
    return total


def _memory(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().pss)
    except (AttributeError, *_GONE):
        return float(process.memory_info().rss)
