"""Environments that fail are started anew in their workers, one by one, and dead or hanging workers replaced."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steadyrl.envs.make import make_env_factory
from steadyrl.envs.restart import RESTARTED, Restarts
from steadyrl.envs.workers.vector import WorkerVectorEnv
from steadyrl.errors import RunFailedError, UserError
from support.faults import HANGS, Faulty
from support.leftovers import nothing_left

N = 4
BAD = 2
SEEDS = [10, 11, 12, 13]
ACTIONS = np.array([2, 0, 1, 1])


def started(fault: str, where: str = "step", budget: int = 10, at: int = 3) -> tuple[WorkerVectorEnv, Restarts]:
    restarts = Restarts(N, budget, root=5, wait=lambda seconds: None)
    factory = make_env_factory(partial(Faulty, fault, where, at, SEEDS[BAD]))
    envs = WorkerVectorEnv(factory, N, workers=2, timeout=1.5 if fault in HANGS else 60.0, restarts=restarts)
    return envs, restarts


def alone(seed: int, actions: list[int]) -> list[np.ndarray]:
    """What one environment without a fault observes."""
    env = make_env_factory(Faulty)()
    return [env.reset(seed=seed)[0], *(env.step(action)[0] for action in actions)]


@pytest.mark.parametrize(
    ("fault", "broken"),
    [("raise", [BAD]), ("SIGKILL", [2, 3]), ("SIGSTOP", [2, 3]), ("loop in C", [2, 3]), ("SIGSEGV", [2, 3])],
)
def test_only_what_failed_is_started_anew(fault: str, broken: list[int]) -> None:
    with nothing_left():
        envs, restarts = started(fault)
        envs.reset(seed=SEEDS)
        seen = [envs.step(ACTIONS) for _ in range(5)]
        assert [RESTARTED in step[4] for step in seen] == [False, False, True, False, False]
        obs, rewards, terminated, truncated, infos = seen[2]
        assert np.flatnonzero(infos[RESTARTED]).tolist() == broken
        assert infos[RESTARTED].shape == (N,)
        assert (rewards[broken] == 0).all()
        assert not (terminated | truncated)[broken].any()
        expected = Restarts(N, 10, root=5)
        for i in range(N):
            action = int(ACTIONS[i])
            if i in broken:
                seed = expected.next_seed(i, RunFailedError(""))
                rows = [obs[i], seen[3][0][i], seen[4][0][i]]
                np.testing.assert_array_equal(rows, alone(seed, [action, action]))
            else:
                rows = [step[0][i] for step in seen]
                np.testing.assert_array_equal(rows, alone(SEEDS[i], [action] * 5)[1:])
        assert restarts.counts == [int(i in broken) for i in range(N)]
        envs.close()


@pytest.mark.parametrize(("where", "at"), [("reset", 2), ("reset", 1)])
def test_a_failing_reset_is_answered_like_a_failing_step(where: str, at: int) -> None:
    envs, restarts = started("raise", where, at=at)
    _, infos = envs.reset(seed=SEEDS)
    assert (RESTARTED in infos) == (at == 1)
    rows = [envs.step(ACTIONS) for _ in range(7)]
    if at == 2:
        # The episode that ended in this step is left out with the environment; those of the others are not.
        _, rewards, _, truncated, infos = rows[-1]
        assert np.flatnonzero(infos[RESTARTED]).tolist() == [BAD]
        assert truncated.tolist() == [True, True, False, True]
        assert rewards[BAD] == 0.0
        assert [obs is None for obs in infos["final_obs"]] == [False, False, True, False]
    assert restarts.counts == [0, 0, 1, 0]
    envs.close()


@pytest.mark.parametrize("fault", ["raise", "SIGKILL"])
def test_the_budget_ends(fault: str) -> None:
    with nothing_left():
        envs, _ = started(fault, budget=1 if fault == "raise" else 2)
        envs.reset(seed=SEEDS)
        for _ in range(4):
            envs.step(ACTIONS)
        envs.reset(seed=SEEDS)
        envs.step(ACTIONS)
        envs.step(ACTIONS)
        with pytest.raises(RunFailedError, match=r"MotorError|SIGKILL"):
            envs.step(ACTIONS)


def test_code_that_breaks_the_interface_is_not_started_anew() -> None:
    envs, restarts = started("wrong shape")
    envs.reset(seed=SEEDS)
    envs.step(ACTIONS)
    envs.step(ACTIONS)
    with pytest.raises(UserError, match="has shape"):
        envs.step(ACTIONS)
    assert restarts.counts == [0] * N


def test_an_episode_that_ends_by_itself_is_fine() -> None:
    envs, restarts = started("")
    told: list[int] = []
    restarts.fine = told.append  # type: ignore[method-assign,assignment]
    envs.reset(seed=SEEDS)
    for _ in range(14):
        envs.step(ACTIONS)
    assert told == [*range(N)] * 2
    envs.close()


def test_an_environment_that_cannot_be_made_again_spends_the_budget_and_ends() -> None:
    restarts = Restarts(N, 3, root=5, wait=lambda seconds: None)
    made: list[int] = []

    def once() -> Faulty:
        made.append(1)
        if len(made) > 2:  # a block of two
            raise OSError("the licences are used up")
        return Faulty("raise", "step", 1, SEEDS[BAD])

    once.__module__ = "__main__"
    envs = WorkerVectorEnv(make_env_factory(once), N, workers=2, restarts=restarts)
    envs.reset(seed=SEEDS)
    with pytest.raises((RunFailedError, UserError), match="the licences are used up"):
        envs.step(ACTIONS)
    assert restarts.counts == [0, 0, 3, 0]


class DiesAgain(Faulty):
    """Ends its process in a step, and then, made anew, twice more in its reset; `notes` tells how often it did."""

    def __init__(self, notes: Path) -> None:
        super().__init__()
        self.notes = notes

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if self.notes.exists() and len(self.notes.read_text()) < 3 and seed not in SEEDS:
            self._die()
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        if self.seed == SEEDS[BAD] and self.t == 2:
            self._die()
        return super().step(action)

    def _die(self) -> None:
        with self.notes.open("a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("budget", [20, 3])
def test_a_worker_whose_successor_dies_too_is_replaced_again(budget: int, tmp_path: Path) -> None:
    with nothing_left():
        restarts = Restarts(N, budget, root=5, wait=lambda seconds: None)
        factory = make_env_factory(partial(DiesAgain, tmp_path / "notes"))
        envs = WorkerVectorEnv(factory, N, workers=2, restarts=restarts)
        envs.reset(seed=SEEDS)
        envs.step(ACTIONS)
        envs.step(ACTIONS)
        if budget == 3:  # the block of two takes two of them each time
            with pytest.raises(RunFailedError, match=r"ended by itself \(signal SIGKILL\) in reset\(\)"):
                envs.step(ACTIONS)
            return
        infos = envs.step(ACTIONS)[4]
        assert np.flatnonzero(infos[RESTARTED]).tolist() == [2, 3]
        assert restarts.counts == [0, 0, 3, 3]
        assert (tmp_path / "notes").read_text() == "xxx"
        assert RESTARTED not in envs.step(ACTIONS)[4]
        envs.close()
