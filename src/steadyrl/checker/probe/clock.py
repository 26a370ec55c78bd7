"""How long a call takes, without the time in which other programs had the processor."""

from __future__ import annotations

import importlib.util
from time import perf_counter, process_time
from typing import Any

_resource: Any = None
if importlib.util.find_spec("resource"):  # not on Windows
    import resource as _resource
_THREAD: Any = getattr(_resource, "RUSAGE_THREAD", None)


class Clock:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._waits = _waits()
        self._cpu, self._wall = process_time(), perf_counter()

    def seconds(self) -> tuple[float, float]:
        """How long it took, and how much of that the thread waited for something.

        By the clock where the thread waited; else the processor time, as others may have had it.
        """
        wall, cpu = perf_counter() - self._wall, process_time() - self._cpu
        if _THREAD is not None and _waits() == self._waits:
            return min(wall, cpu), 0.0
        return wall, max(0.0, wall - cpu)


def _waits() -> int:
    return 0 if _THREAD is None else int(_resource.getrusage(_THREAD).ru_nvcsw)
