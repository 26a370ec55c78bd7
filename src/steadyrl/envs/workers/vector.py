"""Environments in processes of their own, in blocks, behind Gymnasium's vector interface."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from steadyrl.cores import usable_cores
from steadyrl.envs.advance import Advanced, AdvancingVectorEnv, ToldInfos
from steadyrl.envs.alike import differ, unequal
from steadyrl.envs.make import EnvFactory
from steadyrl.envs.restart import RESTARTED, Restarts
from steadyrl.envs.snapshots.state import Ability
from steadyrl.envs.workers.arguments import insist_on
from steadyrl.envs.workers.board import Board, anonymous_file
from steadyrl.envs.workers.channel import CALL, DONE, FAILED, SEED, STEP, TOLD
from steadyrl.envs.workers.crew import LOST, Crew
from steadyrl.envs.workers.keeper import Context
from steadyrl.envs.workers.loss import lost
from steadyrl.envs.workers.process import Process
from steadyrl.envs.workers.recipe import Recipe
from steadyrl.envs.workers.report import Report
from steadyrl.envs.workers.shared import Layout, Stepping
from steadyrl.envs.workers.worker import Setup
from steadyrl.errors import RunFailedError, SteadyRLError, words
from steadyrl.spaces.tree import Tree

CLOSE_S = 5.0  # the environments may take this long to close before their processes are ended
_LONGEST_S = 1e6  # what waits in the system take no more than counts as this
_SETTLE_S = 0.5  # after a failure, the others may take this long to answer and to close


class WorkerVectorEnv(AdvancingVectorEnv):
    """N environments in blocks over W processes, with SAME_STEP autoreset and the results of `SerialVectorEnv`.

    Observations, rewards, flags and actions go through shared memory, and a step wakes each worker once. No worker is
    forked from this process, and none outlives it.

    Attributes:
        max_episode_steps: The environments' own limit, or None.

    Args:
        factory: Makes the environments.
        num_envs: N.
        workers: W; None is one for each usable core. There are never more than environments.
        context: `forkserver` forks them from one small process that has imported what they need, `spawn` starts each
            as a new program.
        timeout: Seconds that an environment may take to be made, to reset, to step and to close.
        restarts: Starts environments that fail anew instead of ending; their row is told in `infos[RESTARTED]`.

    Raises:
        UserError: an argument is wrong, or the environment cannot be made or sent.
        RunFailedError: an environment failed, died or hangs; the error names it, and a note holds the worker's
            traceback. Its attribute `failure` is a `Failure`.
    """

    def __init__(
        self,
        factory: EnvFactory,
        num_envs: int,
        *,
        workers: int | None = None,
        context: Context = "forkserver",
        timeout: float = 60.0,
        restarts: Restarts | None = None,
    ) -> None:
        self.closed = True  # until there is something to close: before Gymnasium 1.3 a destructor asks
        insist_on(context, workers, timeout)
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self._recipe = Recipe(factory)
        self._timeout = timeout = min(float(timeout), _LONGEST_S)
        self._restarts = restarts
        count = min(num_envs, workers or usable_cores())
        self._blocks = [range(w * num_envs // count, (w + 1) * num_envs // count) for w in range(count)]
        self._arrays: Stepping | None = None  # once the spaces are known, until everything is closed
        self._unheard: set[int] = set()  # workers whose answer is outstanding
        self._given_up: set[int] = set()  # workers that failed
        file = anonymous_file(Board.size(num_envs, count))
        self._board = Board(file, num_envs, count)
        self._crew = Crew(context, count, self._board, file, timeout)
        try:
            self._set_up(file)
        except BaseException:
            self._shut(0.0)
            raise
        self.closed = False

    @property
    def processes(self) -> list[Process]:
        """The workers, in order."""
        self._crew.await_ids()
        return self._crew.processes

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start every environment with its own seed, [N]; without, each draws on."""
        seeds = [None] * self.num_envs if seed is None else [None if s is None else int(s) for s in seed]
        told = self._ask(("reset", seeds[block.start : block.stop], options) for block in self._blocks)
        obs, infos = self._result(told)
        return obs, self._infos(infos)

    def advance(self, actions: npt.NDArray[Any]) -> Advanced:
        """Step every environment with its own action, [N, ...], and start those anew whose episode ended."""
        self._insist_on_open()
        self._stepping().show(np.asarray(actions), self._board.origin, self._recipe.id)
        self._unheard = set(range(len(self._blocks)))
        self._crew.poke(STEP)
        obs, told = self._result(self._hear_all())
        rewards, terminated, truncated = self._stepping().told()
        if self._restarts is not None:
            for i in np.flatnonzero(terminated | truncated):
                self._restarts.fine(int(i))
        return obs, rewards, terminated, truncated, told

    def restart(self, index: int, seed: int) -> Any:
        """Start one environment anew; returns its first observation and info."""
        self._insist_on_open()
        number = next(n for n, block in enumerate(self._blocks) if index in block)
        self._unheard = {number}
        self._crew.say(number, CALL, ("restart", index - self._blocks[number].start, seed))
        return self._hear_all()[number]

    def cost(self) -> Any:
        """What an environment costs (`steadyrl.envs.timing.Cost`) that the first process makes once more."""
        self._insist_on_open()
        self._unheard = {0}
        self._crew.say(0, CALL, ("cost",))
        return self._hear_all()[0]

    def abilities(self) -> list[Ability]:
        """How the state of each environment can be saved, [N]."""
        return self._each("abilities")

    def states(self) -> list[Any]:
        """The state of every environment, [N], as `steadyrl.envs.snapshot.block_state` tells it."""
        return self._each("state")

    def restore_states(self, states: Sequence[Any]) -> Any:
        """Bring every environment to its state, [N]; returns what each observes there."""
        told = self._ask(("call", "restore", states[block.start : block.stop]) for block in self._blocks)
        return self._result({number: ([], rows) for number, rows in told.items()})[0]

    def close_extras(self, **kwargs: Any) -> None:
        """Let the environments close, then end the processes; takes seconds at most, whatever state they are in.

        Raises:
            SteadyRLError: an environment failed in its `close`, or hung; all processes have ended all the same.
        """
        problems = self._shut(min(CLOSE_S, self._timeout))
        if problems:
            raise problems[0]

    def _each(self, name: str) -> list[Any]:
        """What a function of the registry tells of each environment, [N]."""
        told = self._ask(("call", name) for _ in self._blocks)
        return [part for number in sorted(told) for part in told[number]]

    def _set_up(self, file: int) -> None:
        """Make the environments, then the arrays for their spaces."""
        spaces = self._ask(self._setup(number) for number in range(len(self._blocks)))
        if any(
            differ(own, first) for found in spaces.values() for own, first in zip(found[:2], spaces[0], strict=False)
        ):
            raise unequal(self._recipe.id)
        self.single_observation_space, self.single_action_space, self.max_episode_steps = spaces[0]
        self._tree = Tree.of(self.single_observation_space)
        offset = Board.size(self.num_envs, len(self._blocks))
        layout = Layout.of(self.single_observation_space, self.single_action_space, self.num_envs, offset)
        self._arrays = Stepping(file, layout)
        self._ask(("map", layout) for _ in self._blocks)

    def _setup(self, number: int) -> Setup:
        block = self._blocks[number]
        return Setup(number, len(self._blocks), self.num_envs, block.start, len(block), self._recipe, list(sys.argv))

    def _ask(self, contents: Iterable[Any]) -> dict[int, Any]:
        """Send each worker its message; returns what they answer."""
        self._insist_on_open()
        self._unheard = set(range(len(self._blocks)))
        for number, content in enumerate(contents):
            self._crew.say(number, CALL, content)
        return self._hear_all()

    def _hear_all(self) -> dict[int, Any]:
        try:
            return self._heard(self._unheard, replace=self._restarts is not None and self._arrays is not None)
        except SteadyRLError:
            self._shut(_SETTLE_S)
            raise

    def _heard(self, awaited: set[int], *, replace: bool) -> dict[int, Any]:
        """The answers of these workers, where they have content; failed environments are started anew or raise.

        Args:
            awaited: The workers; each leaves the set as it answers.
            replace: A worker that died or hangs is replaced, if the budget allows.
        """
        told: dict[int, Any] = {}
        for number, kind, content in self._crew.answers(awaited):
            if kind == TOLD:
                told[number] = content
            elif kind != DONE:
                error = self._error(number, kind, content)
                try:
                    if kind == LOST and replace:
                        told[number] = self._replaced(number, error)
                    elif self._restarts is not None and isinstance(content, Report) and content.asks:
                        seed = self._restarts.next_seed(content.failure.env_index, error)
                        self._crew.say(number, SEED, seed)
                    else:
                        raise error
                except SteadyRLError as final:
                    self._raise_first(number, final, awaited)
        return told

    def _replaced(self, number: int, error: SteadyRLError) -> tuple[ToldInfos, Any]:
        """Another process in the place of a dead or hanging one, with all its environments started anew."""
        assert self._restarts is not None
        block = self._blocks[number]
        while True:
            failed = vars(error)["failure"].env_index
            seeds = {i: self._restarts.next_seed(i, error) for i in sorted(block, key=lambda i: i != failed)}
            self._crew.kill(number)
            for i in block:
                self._board.total[i] = self._board.origin[i] = self._stepping().log.count
            self._crew.start(number)
            reset = ("reset", [seeds[i] for i in block], None)
            try:
                for content in (self._setup(number), ("map", self._stepping().layout), reset):
                    self._crew.say(number, CALL, content)
                    answer = self._heard({number}, replace=False).get(number)
            except SteadyRLError as again:
                self._given_up.discard(number)
                error = again
                continue
            self._stepping().make_up(block)
            told, sent = answer or ([], None)
            return [(i, {RESTARTED: True}) for i in block] + told, sent

    def _error(self, number: int, kind: bytes, content: Any, limit: float | None = None) -> SteadyRLError:
        if kind == LOST:
            log = self._arrays.log if self._arrays else None
            limit = self._timeout if limit is None else limit
            return lost(content, number, self._blocks[number], self._recipe.id, self._board, log, limit)
        if isinstance(content, Report):
            return content.error()
        assert kind == FAILED
        return RunFailedError(
            f"What worker {number} of {self._recipe.id} tells cannot be read in this process: {words(content)}",
            remedy="Let spaces and info be of classes that can be imported, or use vec='sync'.",
            code="env-pickle",
        )

    def _raise_first(self, number: int, error: SteadyRLError, awaited: set[int]) -> NoReturn:
        """Raise the error of the failed environment with the lowest number, which does not depend on timing."""
        errors = {number: error}
        self._given_up.add(number)
        awaited.discard(number)
        for other, kind, content in self._crew.answers(awaited, _SETTLE_S, stacks=False):
            if kind == FAILED or (kind == LOST and content.status is not None):
                errors[other] = self._error(other, kind, content)
            if kind in (FAILED, LOST):
                awaited.discard(other)
                self._given_up.add(other)
        raise errors[min(errors)]

    def _result(self, told: dict[int, Any]) -> tuple[Any, ToldInfos]:
        """Observations and infos of all environments."""
        infos = [entry for number in sorted(told) for entry in told[number][0]]
        obs = self._arrays and self._arrays.obs()
        if obs is not None:
            return obs, infos
        return self._tree.batch([row for number in sorted(told) for row in told[number][1]]), infos

    def _shut(self, limit: float) -> list[SteadyRLError]:
        """Close what answers within `limit` seconds, end the rest; returns what went wrong on the way."""
        problems: list[SteadyRLError] = []
        if self._crew.closed:
            return problems
        try:
            for number, kind, _ in self._crew.answers(self._unheard, limit, stacks=False):
                if kind in (FAILED, LOST):
                    self._unheard.discard(number)
                    self._given_up.add(number)
            awaited = set(range(len(self._blocks))) - self._given_up if limit else set()
            for number in awaited:
                self._crew.say(number, CALL, ("close",))
            for number, kind, content in self._crew.answers(awaited, limit):
                if kind == TOLD:
                    problems += [report.error() for report in content]
                else:
                    problems.append(self._error(number, kind, content, limit))
        finally:
            self._crew.close()
            self._arrays = None
            self._board.close()
        return problems

    def _insist_on_open(self) -> None:
        if self._crew.closed or self._unheard:
            raise RunFailedError(
                f"The environments {self._recipe.id} are closed, or were interrupted in the middle of a step.",
                remedy="Make them anew.",
                code="env-closed",
            )

    def _stepping(self) -> Stepping:
        assert self._arrays is not None
        return self._arrays
