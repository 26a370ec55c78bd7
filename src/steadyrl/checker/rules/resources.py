"""Rules about memory and open files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from steadyrl.checker.finding import Found, rule
from steadyrl.checker.probe.resources import Resources

_LONG_RUN = 10_000_000  # steps of a usual training
_MEMORY = 2 * 2**30  # bytes that an environment must not have gathered by its end
_RATE = _MEMORY / _LONG_RUN  # bytes a step
_SURE = 2**15  # bytes in all: a slow environment takes too few steps to tell less from what episodes happen to hold
_INSTANCE = 2**20  # bytes of a closed instance; evaluations and sweeps make thousands
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
        grown = measured[-1] - measured[1] if len(rates) >= 2 else 0
        if grown >= _SURE and min(rates) > least / 2 and float(np.mean(rates)) > least:
            rate = float(np.mean(rates))
            yield Found(
                f"Each step keeps {rate:,.0f} bytes, which is {rate * 1e6 / 2**30:,.1f} GiB in a million steps.",
                {"value": rate, "key": what},
            )
            return


def _count_rule(name: str, what: str) -> Callable[[Resources], Iterator[Found]]:
    def find(resources: Resources) -> Iterator[Found]:
        measured = resources.counts.get(name, [])
        measured = measured[1:] or measured
        growth = [later - earlier for earlier, later in pairwise(measured)]
        steps = sum(resources.steps[-len(growth) :]) if growth else 0
        if len(growth) >= 2 and min(growth) > 0:
            yield Found(f"{sum(growth)} {what} came in {steps} steps and did not go.", {"value": sum(growth)})
            return
        before, after = resources.built.get(name, (0, 0))
        if resources.made and after - before >= resources.made:
            yield Found(
                f"{after - before} {what} were left after {resources.made} instances had been made and closed.",
                {"value": after - before},
            )

    find.__doc__ = f"More and more {what}, with every episode or every instance."
    return find


for _code, _kind, _name, _words, _what, _remedy in (
    (
        "SRL-RES-002",
        "fd-leak",
        "files",
        "open files",
        "open files grow in number",
        "Close what step() or reset() opens, and all that is left in close().",
    ),
    (
        "SRL-RES-003",
        "process-leak",
        "processes",
        "processes",
        "processes that the environment started grow in number",
        "End and wait for each process that step() or reset() starts, and for all that are left in close().",
    ),
    (
        "SRL-RES-004",
        "thread-leak",
        "threads",
        "threads",
        "threads grow in number",
        "End each thread that step() or reset() starts, and all that are left in close().",
    ),
):
    rule(_code, _kind, "error", "resources", _what, _remedy)(_count_rule(_name, _words))


@rule(
    "SRL-RES-005",
    "memory-leak",
    "error",
    "resources",
    "closed instances keep their memory",
    "Keep no list of instances, and let go of large arrays in close().",
)
def instances_kept(resources: Resources) -> Iterator[Found]:
    """Memory that is not given back when an instance was closed and is gone."""
    before, after = resources.built.get("memory", (0, 0))
    if resources.made and after - before > _INSTANCE * resources.made:
        each = (after - before) / resources.made
        yield Found(f"Each instance keeps {each:,.0f} bytes after it was closed.", {"value": each})


def _rates(measured: list[int], steps: list[int]) -> list[float]:
    """Growth a step in each segment; the first two, in which caches fill, are left out where there are enough."""
    pairs = list(zip(measured, measured[1:], steps[1:], strict=False))
    kept = pairs[1:] if len(pairs) > 2 else pairs
    return [(later - earlier) / max(count, 1) for earlier, later, count in kept]
