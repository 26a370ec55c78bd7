"""Rules about memory and open files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from steadyrl.checker.finding import Found, rule
from steadyrl.checker.probe.resources import Resources

_LONG_RUN = 10_000_000  # steps of a usual training
_MEMORY = 2 * 2**30  # bytes that an environment must not have gathered by its end
_RATE = _MEMORY / _LONG_RUN  # bytes a step
_UNSEEN_RATE = 20 * _RATE  # of memory that Python does not trace: pages come in lots, so only much of it is sure


@rule(
    "SRL-RES-001",
    "memory-leak",
    "error",
    "resources",
    "memory grows with every step",
    "Find what is appended and never cleared; clear it in reset().",
)
def memory_leak(resources: Resources) -> Iterator[Found]:
    """Memory that is not given back at the end of an episode."""
    for what, measured, least in (
        ("traced", resources.memory, _RATE),
        ("process", resources.held, _UNSEEN_RATE),
    ):
        rates = _rates(measured, resources.steps)
        if len(rates) >= 2 and min(rates) > least / 2 and float(np.mean(rates)) > least:
            rate = float(np.mean(rates))
            yield Found(
                f"Each step keeps {rate:,.0f} bytes, which is {rate * 1e6 / 2**30:,.1f} GiB in a million steps.",
                {"value": rate, "key": what},
            )
            return


@rule(
    "SRL-RES-002",
    "fd-leak",
    "error",
    "resources",
    "open files grow in number",
    "Close what step() or reset() opens, and all that is left in close().",
)
def file_leak(resources: Resources) -> Iterator[Found]:
    """Descriptors that are opened and never closed."""
    files = resources.files[1:] or resources.files
    growth = [later - earlier for earlier, later in pairwise(files)]
    steps = sum(resources.steps[-len(growth) :]) if growth else 0
    if len(growth) >= 2 and min(growth) > 0:
        yield Found(f"{sum(growth)} files were opened in {steps} steps and not closed.", {"value": sum(growth)})
        return
    before, after = resources.built
    if resources.made and after - before >= resources.made:
        yield Found(
            f"{after - before} files were still open after {resources.made} instances had been made and closed.",
            {"value": after - before},
        )


def _rates(measured: list[int], steps: list[int]) -> list[float]:
    """Growth a step in each segment; the first two, in which caches fill, are left out where there are enough."""
    pairs = list(zip(measured, measured[1:], steps[1:], strict=False))
    kept = pairs[1:] if len(pairs) > 2 else pairs
    return [(later - earlier) / max(count, 1) for earlier, later, count in kept]
