"""The first play in processes that are started in each way that `multiprocessing` knows, with another hash seed."""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from steadyrl.checker.plan import SEED, Plan
from steadyrl.checker.probe import world
from steadyrl.checker.probe.driver import Driver, fault_of
from steadyrl.checker.probe.play import Play, Split, play, split
from steadyrl.checker.probe.policies import at_random
from steadyrl.checker.probe.stage import Stage, no_beat
from steadyrl.envs.make import quiet_gymnasium
from steadyrl.envs.workers.recipe import Recipe

METHODS = ("fork", "spawn", "forkserver")
_HASH_SEED = "3"  # sets of strings are in another order in new programs
_BOOT_S = 30.0  # for imports, on a machine that is busy


@dataclass
class Starting:
    """What became of it.

    Attributes:
        fails: Method -> what went wrong, in words.
        differs: Method -> where the play went apart from that of this process.
        same: Methods in which all was as here.
    """

    fails: dict[str, str] = field(default_factory=dict)
    differs: dict[str, Split] = field(default_factory=dict)
    same: list[str] = field(default_factory=list)


def starting(stage: Stage, first: Play | None = None) -> Starting | None:
    """Play in each kind of process.

    Args:
        stage: Makes environments, and has what makes them in another process.
        first: What an instance here played first; None plays it now.

    Returns:
        None where the environment cannot be sent, or the play does not even repeat here.
    """
    if stage.recipe is None:
        return None
    first = first or _played(stage.drive(), stage.plan)
    if isinstance(first.rows[-1].told, str) or split(first, _played(stage.drive(), stage.plan)) is not None:
        return None
    found = Starting()
    known = multiprocessing.get_all_start_methods()
    for method in METHODS[: 1 if stage.plan.quick else None]:
        if method in known:
            _start(stage, method, first, found)
    return found


def _played(driver: Driver, plan: Plan) -> Play:
    told = play(driver, at_random(driver.env.action_space), SEED, plan.play_steps, cpu_s=plan.play_s)
    driver.close()
    return told


@contextmanager
def _other_hashes() -> Iterator[None]:
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = _HASH_SEED
    try:
        yield
    finally:
        os.environ.pop("PYTHONHASHSEED")
        os.environ.update({} if before is None else {"PYTHONHASHSEED": before})


def _start(stage: Stage, method: str, here: Play, found: Starting) -> None:
    context: Any = multiprocessing.get_context(method)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_in_process, args=(theirs, stage.recipe, stage.plan), daemon=True)
    with warnings.catch_warnings(), _other_hashes():
        warnings.simplefilter("ignore")  # Python 3.12 warns of threads; those of this process only drain its output
        process.start()
    theirs.close()
    start, limit = time.monotonic(), stage.plan.timeout + _BOOT_S
    told: Any = f"it did not answer within {limit:.0f} s"
    while time.monotonic() - start < limit:
        stage.beat("", 0, None)  # it is waited for here
        if ours.poll(0.2):
            try:
                told = ours.recv()
            except EOFError:
                process.join(2.0)
                told = f"the process ended with exit status {process.exitcode}"
            break
    process.kill()
    process.join()
    ours.close()
    if isinstance(told, str):
        found.fails[method] = told
    elif (where := split(here, told)) is not None:
        found.differs[method] = where
    else:
        found.same.append(method)


def _in_process(parent: Any, recipe: Recipe, plan: Plan) -> None:
    """In the process that was started: make the environment, play, tell."""
    world.COPIES.stay()
    try:
        with quiet_gymnasium():
            told: Any = _played(Driver(recipe.factory().bare(), no_beat), plan)
            if isinstance(told.rows[-1].told, str):
                told = f"it raised {told.rows[-1].told}"
    except BaseException as error:
        told = f"it raised {fault_of(error, 'make', 0).error}"
    with suppress(OSError):
        parent.send(told)
    parent.close()
