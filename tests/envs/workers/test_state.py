"""Functions of a fixed registry are called on the environments where they live."""

from __future__ import annotations

import os
import sys
import time
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from steadyrl.envs.make import make_env_factory
from steadyrl.envs.workers import worker
from steadyrl.envs.workers.channel import STEP
from steadyrl.envs.workers.vector import WorkerVectorEnv
from steadyrl.errors import RunFailedError, UserError
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


def test_each_environment_tells_how_its_state_is_saved() -> None:
    envs = WorkerVectorEnv(make_env_factory(Faulty), 3, workers=2)
    envs.reset(seed=[1, 2, 3])
    assert [ability.kind for ability in envs.abilities()] == [envs.abilities()[0].kind] * 3
    obs, info = envs.restart(2, 7)
    assert (obs[1:].tolist(), info) == ([0.0, 2.0], {})
    envs.close()


def test_blocks_of_different_spaces_are_refused() -> None:
    def other() -> Any:
        env = Faulty()
        env.observation_space = spaces.Box(-os.getpid(), os.getpid(), (3,), np.float32)
        return env

    other.__module__ = "__main__"
    with nothing_left(), pytest.raises(UserError, match="have different spaces"):
        WorkerVectorEnv(make_env_factory(other), 2, workers=2)


def test_what_this_process_cannot_read_is_said() -> None:
    class OnlyThere(Faulty):
        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            name = "only_in_the_worker"
            sys.modules[name] = types.ModuleType(name)
            mask = type("Mask", (), {"__module__": name, "__deepcopy__": lambda self, memo: self})
            sys.modules[name].Mask = mask  # type: ignore[attr-defined]
            return super().reset(seed=seed, options=options)[0], {"action_mask": mask()}

    OnlyThere.__module__ = "__main__"
    with nothing_left():
        envs = WorkerVectorEnv(make_env_factory(OnlyThere), 1, workers=1)
        with pytest.raises(
            RunFailedError, match="What worker 0 of OnlyThere tells cannot be read in this process"
        ) as caught:
            envs.reset(seed=[1])
        assert caught.value.code == "env-pickle"


def test_an_interrupted_step_is_over_when_it_is_closed() -> None:
    class Slow(Faulty):
        def step(self, action: Any) -> Any:
            time.sleep(0.6)
            return super().step(action)

    Slow.__module__ = "__main__"
    with nothing_left():
        envs = WorkerVectorEnv(make_env_factory(Slow), 2, workers=2)
        envs.reset(seed=[1, 2])
        envs._stepping().show(ACTIONS[:2], envs._board.origin, "Slow")
        envs._unheard = {0, 1}  # as an exception in the middle of a step leaves them
        envs._crew.poke(STEP)
        with pytest.raises(RunFailedError, match="interrupted in the middle of a step"):
            envs.step(ACTIONS[:2])
        envs.close()
