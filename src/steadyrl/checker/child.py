"""The process in which an environment is played. It tells its parent what it is doing, and what was found."""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from steadyrl.checker import rules
from steadyrl.checker.experiments import Context, perform
from steadyrl.checker.plan import Plan
from steadyrl.checker.probe import world
from steadyrl.checker.probe.stage import Stage
from steadyrl.envs.make import quiet_gymnasium
from steadyrl.envs.workers.channel import FAILED, TOLD, Channel
from steadyrl.envs.workers.recipe import Recipe
from steadyrl.envs.workers.worker import end_with
from steadyrl.errors import SteadyRLError

PHASES = ("", "make", "reset", "step", "render", "close")
BEAT = struct.Struct("<qqqq")  # number of the call, phase, step, seed (-1 for none)


@dataclass(frozen=True)
class Task:
    """What a process is told first.

    Attributes:
        recipe: What makes the environments.
        plan: Budgets.
        experiments: Which, in order.
        argv: `sys.argv` of the parent.
        again: Every call makes a copy of the one environment that the user gave.
        known: The context of a process before this one.
    """

    recipe: Recipe
    plan: Plan
    experiments: tuple[str, ...]
    argv: list[str]
    again: bool
    known: Context


def main(channel: str, board: str, dump: str, parent: str) -> None:
    """Do what the parent asks and tell it.

    Args:
        channel: Descriptor of the socket to the parent.
        board: Of the shared memory where the beats are.
        dump: Of the file that takes the stack where the process is ended by a fault.
        parent: Process id of the one that started this one.
    """
    end_with(int(parent))
    files = [int(file) for file in (channel, board, dump)]
    for file in files:
        os.set_inheritable(file, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable(files[2])
    world.allow_many_files()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        Child(Channel(socket.socket(fileno=files[0])), files[1]).run()
    os._exit(0)


class Child:
    """See the module.

    Args:
        parent: The connection.
        board: Descriptor of the shared memory.
    """

    def __init__(self, parent: Channel, board: int) -> None:
        self._parent = parent
        self._board = mmap.mmap(board, BEAT.size)
        self._calls = 0
        self._task: Task = parent.wait()[1]
        sys.argv[:] = self._task.argv

    def run(self) -> None:
        """All experiments."""
        assert rules.SUBJECTS
        task = self._task
        out, err = world.Output(1), world.Output(2)
        try:
            stage, context = self._stage(out, err), task.known
            context.vector = vector_maker(stage.registered, task.recipe)
            for name in task.experiments:
                self._say({"begin": name})
                start = time.perf_counter()
                with quiet_gymnasium():
                    _, findings = perform(name, stage, context)
                seconds = time.perf_counter() - start
                self._say({"end": name, "findings": findings, "numbers": context.numbers, "s": seconds})
                if name in ("facts", "fits"):
                    self._say({"known": _light(context)})
                if name == "facts" and (context.facts.made is not None or context.facts.missing):
                    break
            self._say({"done": True, "copies": world.COPIES.count})
        except SteadyRLError as error:
            self._parent.say(FAILED, (type(error).__name__, error.message, error.remedy, error.code))

    def _stage(self, out: world.Output, err: world.Output) -> Stage:
        task = self._task
        self.beat("make", 0, None)
        factory = task.recipe.factory()
        maker = (lambda mode: task.recipe.factory().bare(mode)) if task.again else factory.bare
        stage = Stage(maker, task.plan, factory.id, self.beat, out, err)
        stage.registered, stage.recipe = factory.registered, task.recipe
        return stage

    def beat(self, phase: str, step: int, seed: int | None) -> None:
        """Note a call of the environment where the parent sees it."""
        self._calls += 1
        BEAT.pack_into(self._board, 0, self._calls, PHASES.index(phase), step, -1 if seed is None else seed)

    def _say(self, content: dict[str, Any]) -> None:
        self._parent.say(TOLD, content)


def _light(context: Context) -> Context:
    """What a later process needs of this one: no functions."""
    return Context(context.facts, None, context.numbers)


def vector_maker(registered: Any, recipe: Recipe) -> Any:
    """What makes the registered vector version with so many environments; None where there is none."""
    if registered is None or registered.vector_entry_point is None:
        return None
    import gymnasium as gym

    kwargs = recipe.factory().env_kwargs

    def make(count: int) -> Any:
        return gym.make_vec(registered, count, vectorization_mode="vector_entry_point", **kwargs)

    return make
