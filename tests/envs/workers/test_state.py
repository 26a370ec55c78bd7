"""Functions of a fixed registry are called on the environments where they live."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from steadyrl.envs.make import make_env_factory
from steadyrl.envs.workers import worker
from steadyrl.envs.workers.vector import WorkerVectorEnv
from steadyrl.errors import RunFailedError
from support.faults import Faulty
from support.leftovers import nothing_left

ACTIONS = np.array([2, 0, 1])


def block_state(envs: list[Any]) -> list[Any]:
    """A snapshot that knows `Faulty` only."""
    inner = [env.unwrapped for env in envs]
    return [
        (e.t, e.episode, e.position, e.np_random.bit_generator.state, env.elapsed)
        for e, env in zip(inner, envs, strict=True)
    ]


def block_restore(envs: list[Any], states: list[Any]) -> list[Any]:
    rows = []
    for env, (t, episode, position, random_state, elapsed) in zip(envs, states, strict=True):
        inner = env.unwrapped
        inner.t, inner.episode, inner.position = t, episode, position
        inner.np_random.bit_generator.state = random_state
        env.elapsed = elapsed
        rows.append(np.array([position, t, episode], np.float32))
    return rows


def broken(envs: list[Any]) -> list[Any]:
    raise KeyError("no state")


def made(name: str, fault: str = "") -> WorkerVectorEnv:
    """Environments whose workers call the functions of this file: the registry is in them as it is set here."""

    def one() -> Faulty:
        worker.REGISTRY["state"] = (__name__, name)
        worker.REGISTRY["restore"] = (__name__, "block_restore")
        return Faulty(fault, at=5)

    one.__module__ = "__main__"
    return WorkerVectorEnv(make_env_factory(one), 3, workers=2)


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    before = dict(worker.REGISTRY)
    yield
    assert before == worker.REGISTRY


def test_environments_go_on_from_their_state() -> None:
    envs = made("block_state")
    envs.reset(seed=[1, 2, 3])
    envs.step(ACTIONS)
    states = envs.states()
    assert [state[0] for state in states] == [1, 1, 1]
    at, seen = envs.step(ACTIONS)[0], [envs.step(ACTIONS)[0] for _ in range(6)]
    envs.restore_states(states)
    np.testing.assert_array_equal(envs.step(ACTIONS)[0], at)
    for row in seen:
        np.testing.assert_array_equal(envs.step(ACTIONS)[0], row)
    shown = envs.restore_states(states)
    np.testing.assert_array_equal(shown[:, 1], [1, 1, 1])
    np.testing.assert_array_equal(shown[:, 0], np.array([state[2] for state in states], np.float32))
    envs.close()


def test_a_death_after_restoring_tells_that_not_all_actions_are_known() -> None:
    envs = made("block_state", "SIGKILL")
    envs.reset(seed=[1, 2, 3])
    envs.step(ACTIONS)
    envs.restore_states([(*state[:4], 3) for state in envs.states()])
    for _ in range(3):
        envs.step(ACTIONS)
    with pytest.raises(RunFailedError, match="in step 7 of its episode: it was worker") as caught:
        envs.step(ACTIONS)
    failure = vars(caught.value)["failure"]
    assert (failure.step, failure.whole, failure.seed) == (7, False, None)


def test_what_goes_wrong_there_is_an_error_here() -> None:
    with nothing_left():
        envs = made("broken")
        envs.reset(seed=[1, 2, 3])
        with pytest.raises(RunFailedError, match="no state") as caught:
            envs.states()
        assert "in broken" in caught.value.__notes__[0]
