"""What many steps cost: memory, open files, time."""

from __future__ import annotations

import gc
import threading
import time
import tracemalloc
from dataclasses import dataclass, field

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe import world
from steadyrl.checker.probe.driver import Broken
from steadyrl.checker.probe.play import over
from steadyrl.checker.probe.policies import act, at_random
from steadyrl.checker.probe.stage import Stage

_SEGMENTS = 6  # the first warms up
_SEGMENT_S = 0.3  # CPU seconds; twice as many where the environment waits
_ENOUGH = 150 * 2**20  # bytes after which growth is plain


@dataclass
class Resources:
    """Measurements at the beginnings of episodes, so that what an episode holds is given back.

    Attributes:
        steps: Of each segment.
        memory: Traced bytes after each, the first after warming up.
        held: Bytes of the process after each.
        counts: What there is after each, by name: `files` (open descriptors), `threads`, `processes`.
        built: The same, and `memory` (traced bytes), before and after making and closing some instances.
        made: How many those were.
    """

    steps: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    counts: dict[str, list[int]] = field(default_factory=dict)
    built: dict[str, tuple[int, int]] = field(default_factory=dict)
    made: int = 0


def resources(stage: Stage) -> Resources:
    """Step in segments and measure in between."""
    found = Resources()
    try:
        driver = stage.drive()
        policy = at_random(driver.env.action_space)(SEED)
        driver.reset(seed=SEED)
        tracemalloc.start()
        for _ in range(_SEGMENTS):
            start, spent, steps = time.process_time(), driver.spent, 0
            while steps < stage.plan.leak_steps:
                if time.process_time() - start > _SEGMENT_S or driver.spent - spent > 2 * _SEGMENT_S:
                    break
                steps += 1
                if over(driver.step(act(policy, driver))):
                    driver.reset()
            driver.reset()
            _measure(found, steps)
            if found.memory[-1] - found.memory[0] > _ENOUGH:
                break
        driver.close()
        if not stage.plan.quick:
            _making(stage, found)
    except Broken:
        pass
    finally:
        tracemalloc.stop()
    return found


def _measure(found: Resources, steps: int) -> None:
    gc.collect()
    found.steps.append(steps)
    found.memory.append(tracemalloc.get_traced_memory()[0])
    found.held.append(world.memory())
    for name, count in _counts().items():
        found.counts.setdefault(name, []).append(count)


def _counts() -> dict[str, int]:
    return {"files": world.open_files(), "threads": threading.active_count(), "processes": world.children()}


def _making(stage: Stage, found: Resources, count: int = 4) -> None:
    told = []
    for made in (1, count):  # the first fills caches
        for i in range(made):
            driver = stage.drive()
            driver.reset(seed=SEED + i)
            driver.close()
            del driver
        gc.collect()
        told.append(_counts() | {"memory": tracemalloc.get_traced_memory()[0]})
    found.built, found.made = {name: (told[0][name], told[1][name]) for name in told[0]}, count
