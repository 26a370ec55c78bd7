"""CPU time and memory of this process and all its children."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import perf_counter
from typing import Any

import psutil

_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)


def family() -> list[psutil.Process]:
    """This process and its children; finding them looks at every process of the machine, so not in every turn."""
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    """CPU time of these processes, as far as they live, summed."""
    return _over(processes, lambda process: sum(process.cpu_times()[:2]))


def memory_bytes() -> int:
    """Memory of this process and its children: what is shared counts by its share where the system tells (Linux), else
    resident."""
    gc.collect()
    return int(_over(family(), _memory))


class Load:
    """CPU seconds a second over the turns in which it was watched.

    Args:
        processes: Whose.
    """

    def __init__(self, processes: Iterable[psutil.Process]) -> None:
        self._processes = [*processes]
        self._cpu = 0.0
        self._wall = 0.0

    def watch(self, turn: Callable[[], Any]) -> None:
        """Do one turn and add it."""
        cpu, wall = cpu_seconds(self._processes), perf_counter()
        turn()
        self._wall += perf_counter() - wall
        self._cpu += cpu_seconds(self._processes) - cpu

    @property
    def cores(self) -> float:
        """Cores that were busy."""
        return max(self._cpu, 0.0) / self._wall if self._wall else 0.0


def _over(processes: Iterable[psutil.Process], value: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    for process in processes:
        with suppress(*_GONE):
            total += value(process)
    return total


def _memory(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().pss)
    except (AttributeError, *_GONE):
        return float(process.memory_info().rss)
