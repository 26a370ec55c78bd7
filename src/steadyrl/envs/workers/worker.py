"""What runs in a worker: a block of environments, stepped one after the other. It imports no torch."""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from steadyrl.envs.alike import insist_on_alike
from steadyrl.envs.sources import time_limit
from steadyrl.envs.workers.block import Block, Watched, unsendable
from steadyrl.envs.workers.board import CLOSE, IDLE, MAKE, Board
from steadyrl.envs.workers.channel import DONE, FAILED, STEP, TOLD, Channel, packed
from steadyrl.envs.workers.recipe import Recipe
from steadyrl.envs.workers.report import Phase, report_of
from steadyrl.envs.workers.shared import Layout, Shared
from steadyrl.envs.wrappers import Canonical

# Functions of a block's environments that the parent may call by name, where they are and whether they change state.
REGISTRY = {
    "abilities": ("steadyrl.envs.snapshot", "block_abilities"),
    "state": ("steadyrl.envs.snapshot", "block_state"),
    "restore": ("steadyrl.envs.snapshot", "block_restore"),
}

_PR_SET_PDEATHSIG = 1
_LEFT_TO_THE_PARENT = ("SIGINT", "SIGTERM", "SIGUSR1")  # a terminal or a scheduler sends them to every process


@dataclass(frozen=True)
class Setup:
    """What a worker is told first.

    Attributes:
        number: Its own number.
        workers: W.
        num_envs: N, of all workers.
        first: Number of its first environment.
        count: How many it has.
        recipe: What makes them.
        argv: `sys.argv` of the parent.
    """

    number: int
    workers: int
    num_envs: int
    first: int
    count: int
    recipe: Recipe
    argv: list[str]


def main(channel: int | str, board: int | str, dump: int | str, keeper: int | str) -> None:
    """Serve the parent until it says `close` or is gone.

    Args:
        channel: Descriptor of the socket to the parent.
        board: Of the shared memory.
        dump: Of the file that takes the stack where the process is ended by a fault.
        keeper: Process id of the process that started this one.
    """
    files = [int(file) for file in (channel, board, dump)]
    for file in files:
        os.set_inheritable(file, False)
    leave_signals_to_the_parent()
    end_with(int(keeper))
    faulthandler.enable(files[2])
    np.random.seed()  # a fork would draw what its siblings draw
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        Worker(Channel(socket.socket(fileno=files[0])), files[1]).serve()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(0)  # no thread that an environment left behind keeps the process


def leave_signals_to_the_parent() -> None:
    """Do nothing for Ctrl-C and the signals that ask a run to end, which then steps on to its last checkpoint."""
    for name in _LEFT_TO_THE_PARENT:
        signal.signal(getattr(signal, name), _nothing)


class Worker:
    """See the module.

    Args:
        parent: The connection.
        file: Descriptor of the shared memory.
    """

    def __init__(self, parent: Channel, file: int) -> None:
        self._parent = parent
        self._file = file
        self._setup: Setup = parent.wait()[1]
        self._block: Block
        self._board = Board(file, self._setup.num_envs, self._setup.workers)
        self._board.begin(self._setup.number, self._setup.first, MAKE)
        sys.argv[:] = self._setup.argv

    def serve(self) -> None:
        """Make the environments, then do what is asked until `close`."""
        block = self._made()
        if block is None:
            return
        self._block = block
        first = block.watched[0]
        self._answer((first.observation_space, first.action_space, time_limit(first.env)), phase="make")
        calls: dict[str, Callable[..., None]] = {
            "map": self._map,
            "reset": self._reset,
            "call": self._call,
            "restart": self._restart,
            "cost": self._cost,
        }
        while True:
            kind, content = self._parent.wait()
            if kind == STEP:
                self._step()
                continue
            name, *arguments = content
            if name == "close":
                break
            calls[name](*arguments)
        self._close()

    def _made(self) -> Block | None:
        """The block of environments; None where one of them cannot be made, which the parent is told."""
        setup = self._setup
        index = setup.first
        made: list[Canonical] = []
        watched = []
        try:
            factory = setup.recipe.factory()
            for index in range(setup.first, setup.first + setup.count):
                self._board.begin(setup.number, index, MAKE)
                made.append(factory(index=index))
                insist_on_alike(made, setup.recipe.id)
                watched.append(Watched(made[-1], factory, setup.number, self._board, self._ask))
        except BaseException as error:
            self._fail(error, index, "make")
            return None
        return Block(watched, setup.first)

    def _ask(self, report: Any) -> int:
        """The seed to start a failed environment anew with; the parent ends this process where there is to be none."""
        self._parent.say(FAILED, report)
        seed: int = self._parent.wait()[1]
        return seed

    def _map(self, layout: Layout) -> None:
        """Take the arrays of a step from the shared memory."""
        first, end = self._setup.first, self._setup.first + self._setup.count
        arrays = Shared(self._file, layout)
        os.close(self._file)
        self._actions = arrays.actions[first:end]
        self._rewards = arrays.rewards[first:end]
        self._terminated, self._truncated = arrays.terminated[first:end], arrays.truncated[first:end]
        self._block.leaves = arrays.leaves
        self._answer(None)

    def _reset(self, seeds: list[int | None], options: dict[str, Any] | None) -> None:
        self._block.reset(seed=seeds, options=options)
        self._answer_told("reset")

    def _restart(self, local: int, seed: int) -> None:
        self._answer(self._block.restart(local, seed))

    def _cost(self) -> None:
        """Tell what an environment costs that is made here once more."""
        from steadyrl.envs.timing import cost_of

        setup = self._setup
        factory = setup.recipe.factory()

        def made() -> Watched:
            self._board.begin(setup.number, setup.first, MAKE)
            return Watched(factory(index=setup.first), factory, setup.number, self._board, self._ask)

        try:
            self._answer(cost_of(made))
        except BaseException as error:
            self._fail(error, setup.first, "step")

    def _step(self) -> None:
        _, rewards, terminated, truncated, _ = self._block.step(self._actions)
        self._rewards[:] = rewards
        self._terminated[:] = terminated
        self._truncated[:] = truncated
        self._answer_told("step")

    def _call(self, name: str, *arguments: Any) -> None:
        """Call a function of the registry with this block's environments; the observations that it returns are shown.

        A function of states returns them; `restore` returns a row of observations for each environment.
        """
        module, function = REGISTRY[name]
        first = self._setup.first
        envs = [watched.env for watched in self._block.watched]
        try:
            result = getattr(importlib.import_module(module), function)(envs, *arguments)
            if name == "restore":
                self._block.show(result)
                for watched in self._block.watched:
                    watched.resume()
                result = self._block.taken()[1]
            self._answer(result)
        except BaseException as error:
            self._fail(error, first, "step")

    def _close(self) -> None:
        """Close every environment, and tell what went wrong."""
        reports = []
        for watched in self._block.watched:
            self._board.begin(self._setup.number, watched.index, CLOSE)
            try:
                watched.env.env.close()  # `Canonical.close` would make a warning of an error, which nobody sees here
            except BaseException as error:
                reports.append(report_of(error, watched.index, self._setup.number, "close", watched.env))
        self._parent.say(TOLD, reports)

    def _answer_told(self, phase: Phase) -> None:
        told, rows = self._block.taken()
        if told or rows is not None:
            self._answer((told, rows), told, phase)
        else:
            self._board.phase[self._setup.number] = IDLE
            self._parent.poke(DONE)

    def _answer(self, content: Any, told: Sequence[tuple[int, dict[str, Any]]] = (), phase: Phase = "step") -> None:
        self._board.phase[self._setup.number] = IDLE
        try:
            message = packed(TOLD, content)
        except Exception as error:
            index, cause = unsendable(told, self._setup.recipe.id) or (self._setup.first, error)
            self._fail(cause, index, phase)
        else:
            self._parent.socket.sendall(message)

    def _fail(self, error: BaseException, index: int, phase: Phase) -> None:
        env = None if phase == "make" else self._block.watched[index - self._setup.first].env
        self._parent.say(FAILED, report_of(error, index, self._setup.number, phase, env))


def end_with(keeper: int) -> None:
    """Let the system end this process when `keeper`, which started it, ends, even in an endless loop or stopped."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != keeper:
        os._exit(0)


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler instead of SIG_IGN: the programs that an environment starts do not inherit it."""
