"""The environments of one worker: stepped like those of the parent's own process, but under its eyes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from steadyrl.envs.advance import Advanced, ToldInfos
from steadyrl.envs.make import EnvFactory
from steadyrl.envs.restart import RESTARTED
from steadyrl.envs.serial import SerialVectorEnv
from steadyrl.envs.trace import EpisodeTrace
from steadyrl.envs.workers.board import CLOSE, MAKE, RESET, STEP, Board, Start
from steadyrl.envs.workers.channel import TOLD, packed
from steadyrl.envs.workers.report import Phase, Report, report_of
from steadyrl.envs.workers.shared import Leaves, put
from steadyrl.envs.wrappers import Canonical
from steadyrl.errors import RunFailedError


class Watched:
    """One environment that writes what it is doing on the board, and that is made anew where it fails.

    Args:
        env: The environment.
        factory: Makes another one.
        worker: Number of this worker.
        board: Where it writes.
        ask: Sends a report to the parent and returns the seed to start anew with; where the run ends instead, it does
            not return.
    """

    def __init__(
        self, env: Canonical, factory: EnvFactory, worker: int, board: Board, ask: Callable[[Report], int]
    ) -> None:
        assert env.index is not None
        self.env = env
        self.index = env.index
        self.restarted: Callable[[], None] = lambda: None
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._factory = factory
        self._worker = worker
        self._board = board
        self._ask = ask
        self._total = board.total[self.index]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        try:
            return self._begin(seed, options)
        except BaseException as error:
            return self._anew(error, "reset")

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step."""
        self._total += 1
        board, worker = self._board, self._worker
        board.began[worker] = time.monotonic()
        board.current[worker] = self.index
        board.phase[worker] = STEP
        board.total[self.index] = self._total
        try:
            return self.env.step(action)
        except BaseException as error:
            obs, info = self._anew(error, "step")
            return obs, 0.0, False, False, info

    def close(self) -> None:
        """Close the environment."""
        self._board.begin(self._worker, self.index, CLOSE)
        self.env.close()

    def resume(self) -> None:
        """Write on the board that the environment is in the middle of an episode that began elsewhere."""
        self._board.origin[self.index] = self._total - self.env.elapsed
        self._board.forget_start(self.index)

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        self._board.begin(self._worker, self.index, RESET)
        self._board.origin[self.index] = self._total
        trace = EpisodeTrace.beginning(self.env.env, seed, options)
        self._board.put_start(self.index, Start(trace.seed, trace.options, trace.random_state))
        begun = self.env.reset(seed=seed, options=options)
        if not self.env.trace.whole:  # a life within a game
            self._board.forget_start(self.index)
        return begun

    def _anew(self, error: BaseException, phase: Phase) -> tuple[Any, dict[str, Any]]:
        """Another environment in the place of the failed one, started with the parent's seed."""
        asks = not isinstance(error, ValueError)  # UserError: code that breaks the interface does so again
        while True:
            seed = self._ask(report_of(error, self.index, self._worker, phase, self.env, asks=asks))
            try:
                phase = "make"
                self._board.begin(self._worker, self.index, MAKE)
                with suppress(Exception):
                    self.env.env.close()
                self.env = self._factory(index=self.index)
                phase = "reset"
                obs, info = self._begin(seed, None)
            except BaseException as failed:
                error = failed
                continue
            self.restarted()
            return obs, {**info, RESTARTED: True}


class Block(SerialVectorEnv):
    """The environments of a worker; what goes beyond the arrays of a step is kept to be sent.

    Attributes:
        leaves: Where observations go, [N, ...] of all workers; None sends them.
        made_up: Local numbers of the environments that failed in this step and were started anew.

    Args:
        envs: The environments.
        first: Number of the first of them.
    """

    def __init__(self, envs: Sequence[Watched], first: int) -> None:
        watched: Any = envs
        super().__init__(watched)
        self.watched = envs
        self.leaves: Leaves | None = None
        self.made_up: list[int] = []
        self._first = first
        self._told: ToldInfos = []
        self._rows: list[Any] | None = None
        for local, env in enumerate(envs):
            env.restarted = lambda local=local: self.made_up.append(local)  # type: ignore[misc]

    def advance(self, actions: Any) -> Advanced:
        """Step every environment; rows of those that were started anew are made up.

        The episode that ended in this step, if one did, is left out with the environment.
        """
        self.made_up.clear()
        obs, rewards, terminated, truncated, told = super().advance(actions)
        if self.made_up:
            for row in self.made_up:
                rewards[row], terminated[row], truncated[row] = 0.0, False, False
            told = [entry for entry in told if entry[0] not in self.made_up or RESTARTED in entry[1]]
        return obs, rewards, terminated, truncated, told

    def taken(self) -> tuple[ToldInfos, list[Any] | None]:
        """Infos with the number of their environment, in order, and the observations that the arrays do not hold."""
        told, self._told = self._told, []
        rows, self._rows = self._rows, None
        return told, rows

    def show(self, rows: list[Any]) -> None:
        """Put these observations where the parent finds them."""
        if self.leaves is None:
            self._rows = rows
        else:
            put(self.leaves, rows, self._first, self._tree)

    def _batch(self, rows: list[Any]) -> Any:
        self.show(rows)

    def _infos(self, told: ToldInfos) -> dict[str, Any]:
        self._told += [(self._first + i, info) for i, info in told if info]
        return {}


def unsendable(told: Sequence[tuple[int, dict[str, Any]]], name: str) -> tuple[int, RunFailedError] | None:
    """The environment whose info cannot be pickled, with the error that says which part; None where all can."""
    for index, info in told:
        for key, value in info.items():
            try:
                packed(TOLD, value)
            except Exception as error:
                return index, RunFailedError(
                    f"info[{key!r}] of {name} (environment {index}) cannot be sent from its process: {error}",
                    remedy="Let it be plain numbers or arrays, leave it out, or use vec='sync'.",
                    code="env-pickle",
                )
    return None
