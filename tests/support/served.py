"""A worker that serves in a thread of this process, with the parent's end of everything."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from steadyrl.envs.make import make_env_factory
from steadyrl.envs.workers.board import Board, anonymous_file
from steadyrl.envs.workers.channel import CALL, TOLD, Channel
from steadyrl.envs.workers.channel import STEP as STEP_MESSAGE
from steadyrl.envs.workers.recipe import Recipe
from steadyrl.envs.workers.shared import Layout, Stepping
from steadyrl.envs.workers.worker import Setup, Worker
from support.faults import Faulty

N, WORKERS = 4, 2
NUMBER, BLOCK = 1, range(1, 3)  # this worker has environments 1 and 2
SEEDS = [11, 12]
_ORIGINS: Any = memoryview(bytearray(8 * N)).cast("q")


class Served:
    """See the module."""

    def __init__(self, env: Callable[[], Any]) -> None:
        self.file = anonymous_file(Board.size(N, WORKERS))
        self.board = Board(self.file, N, WORKERS)
        ours, theirs = socket.socketpair()
        ours.settimeout(20)
        self.parent = Channel(ours)
        recipe = Recipe(make_env_factory(env))
        self.parent.say(CALL, Setup(NUMBER, WORKERS, N, BLOCK.start, len(BLOCK), recipe, ["mine.py", "--flag"]))
        self._worker = Channel(theirs)
        self.thread = threading.Thread(target=self._serve, args=(os.dup(self.file),))
        self.thread.start()
        self.stepping: Stepping | None = None

    def _serve(self, file: int) -> None:
        with suppress(EOFError, BrokenPipeError, ConnectionResetError):
            Worker(self._worker, file).serve()
        self._worker.close()

    def hear(self) -> tuple[bytes, Any]:
        """The next message."""
        while True:
            try:
                return self.parent.wait()
            except BlockingIOError:
                threading.Event().wait(0.001)

    def ask(self, *content: Any) -> tuple[bytes, Any]:
        """The answer to a call."""
        self.parent.say(CALL, content)
        return self.hear()

    def begin(self) -> Stepping:
        """The first messages of every worker."""
        kind, (observation, action, _) = self.hear()
        assert kind == TOLD
        layout = Layout.of(observation, action, N, Board.size(N, WORKERS))
        self.stepping = Stepping(self.file, layout)
        assert self.ask("map", layout) == (TOLD, None)
        return self.stepping

    def step(self, *actions: int) -> tuple[bytes, Any]:
        """The answer to a step with these actions of its own environments."""
        assert self.stepping is not None
        self.stepping.show(np.array([9, *actions, 9]), _ORIGINS, "X")
        self.parent.poke(STEP_MESSAGE)
        return self.hear()

    def close(self) -> None:
        """Let it end, and give everything back."""
        self.parent.close()
        self.thread.join(10)
        assert not self.thread.is_alive()
        self.board.close()
        os.close(self.file)


def alone(seed: int, actions: list[int]) -> list[Any]:
    """What one environment without a fault observes after each action."""
    env = make_env_factory(Faulty)()
    return [env.reset(seed=seed)[0].tolist(), *(env.step(action)[0].tolist() for action in actions)]
