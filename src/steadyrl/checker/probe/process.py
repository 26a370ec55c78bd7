"""Whether an environment can be sent to another process and closed in every state."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field
from multiprocessing.reduction import ForkingPickler
from typing import Any

from gymnasium.utils import EzPickle

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe import world
from steadyrl.checker.probe.driver import Broken, Driver, Fault, fault_of
from steadyrl.checker.probe.play import Split, play, split
from steadyrl.checker.probe.policies import act, at_random
from steadyrl.checker.probe.stage import Stage

_LONG, _LONG_S = 300, 0.3  # steps in which an episode is likely to end, and the seconds for them


@dataclass
class Process:
    """What happened.

    Attributes:
        pickle: What pickling it raised, in words; empty where it could be pickled.
        when: In which state that was.
        unpickle: What came of loading it, in words.
        copy: Where a copy took another course after a reset with the same seed.
        ez: It is rebuilt from its arguments.
        close: What a close raised.
        closing: In which state that was.
        threads: Threads that were left after it was closed.
        lasting: Those of them that keep a process from ending.
        altered: What of the process is another than before, in words: name -> from what to what.
        children: Processes that were left then.
    """

    pickle: str = ""
    when: str = ""
    unpickle: str = ""
    copy: Split | None = None
    ez: bool = False
    close: Fault | None = None
    closing: str = ""
    threads: int = 0
    lasting: int = 0
    altered: dict[str, str] = field(default_factory=dict)
    children: int = 0


def process(stage: Stage) -> Process:
    """Pickle, compare the copy, close once and twice."""
    found = Process()
    before, below = set(threading.enumerate()), world.children()
    _pickling(stage, found)
    for state, steps, times in (
        ("before its first reset", -1, 1),
        ("right after a reset", 0, 1),
        ("in the middle of an episode", 3, 1),
        ("at the end of an episode", _LONG, 1),
        ("a second time", 3, 2),
        ("a second time, without a reset", -1, 2),
    ):
        if found.close is None:
            _closing(stage, found, state, steps, times)
    left = set(threading.enumerate()) - before
    found.threads, found.lasting = len(left), sum(not thread.daemon for thread in left)
    now = world.shared()
    altered = {name: one for name, one in stage.shared.items() if one and now[name] != one}
    found.altered = {name: f"{one} and now {now[name]}" for name, one in altered.items()}
    found.children = max(0, world.children() - below)
    return found


def _pickling(stage: Stage, found: Process) -> None:
    """Only what multiprocessing itself would do to send it; the bytes do not leave this process."""
    try:
        driver = stage.drive()
    except Broken:
        return
    inner: Any = driver.env.unwrapped
    found.ez = isinstance(inner, EzPickle)
    _name_here(type(inner))
    data: Any = None
    for when, steps in (("when it is new", -1), ("in the middle of an episode", 3)):
        try:
            _steps(driver, steps)
        except Broken:
            break
        try:
            data = ForkingPickler.dumps(inner)
        except Exception as error:
            found.pickle, found.when = fault_of(error, "make", 0).error, when
            driver.close()
            return
    if data is not None:
        _copied(stage, found, driver, data)
    driver.close()


def _name_here(kind: type) -> None:
    """Put the classes of a user's script, which came here by value, where they are while the script runs."""
    main = sys.modules["__main__"]
    for each in kind.__mro__:
        if each.__module__ != main.__name__:
            continue
        names: dict[str, Any] = {each.__name__: each}
        for member in vars(each).values():
            known = getattr(member, "__globals__", {}).items()
            names |= {name: value for name, value in known if getattr(value, "__module__", "") == main.__name__}
        for name, value in names.items():
            if not hasattr(main, name):
                setattr(main, name, value)


def _copied(stage: Stage, found: Process, driver: Driver, data: Any) -> None:
    try:
        copy = Driver(ForkingPickler.loads(data), stage.beat)
    except Exception as error:
        found.unpickle = fault_of(error, "make", 0).error
        return
    policy, steps = at_random(driver.env.action_space), min(60, stage.plan.play_steps)
    original = Driver(driver.tap.env, stage.beat)
    base = play(original, policy, SEED, steps, cpu_s=0.5)
    if split(base, play(original, policy, SEED, steps, cpu_s=0.5)) is None:
        found.copy = split(base, play(copy, policy, SEED, steps, cpu_s=0.5))
    copy.close()


def _steps(driver: Driver, steps: int) -> None:
    """Reset and take so many steps; -1 does not even reset."""
    if steps < 0:
        return
    policy = at_random(driver.env.action_space)(SEED)
    driver.reset(seed=SEED)
    spent = driver.spent
    for _ in range(steps):
        if (driver.steps and any(map(bool, driver.tap.flags))) or driver.spent - spent > _LONG_S:
            break
        driver.step(act(policy, driver))


def _closing(stage: Stage, found: Process, state: str, steps: int, times: int) -> None:
    try:
        driver = stage.drive()
        _steps(driver, steps)
    except Broken:
        return
    try:
        for _ in range(times):
            driver.call("close", driver.env.close)
    except Broken as broken:
        found.close, found.closing = broken.fault, state
