"""What the vector of workers makes of what they tell: observations that are sent, costs, limits, several failures."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from steadyrl.envs.make import make_env_factory
from steadyrl.envs.restart import Restarts
from steadyrl.envs.serial import SerialVectorEnv
from steadyrl.envs.workers.vector import WorkerVectorEnv
from steadyrl.errors import RunFailedError, UserError
from support.envs import SpaceProbe
from support.faults import Faulty
from support.leftovers import nothing_left

ACTIONS = np.array([2, 0, 1])


def test_observations_without_a_fixed_size_are_sent_in_order() -> None:
    def probe() -> Any:
        said = spaces.Text(
            6, charset="a"
        )  # before 1.2, characters are drawn in the order that hashes have in a process
        space = spaces.Dict({"said": said, "x": spaces.Box(-1.0, 1.0, (2,), np.float64)})
        return SpaceProbe(space, spaces.Discrete(3), horizon=3)

    probe.__module__ = "__main__"
    factory = make_env_factory(probe)
    serial = SerialVectorEnv([factory(index=i) for i in range(3)])
    envs = WorkerVectorEnv(factory, 3, workers=2)
    seen: list[Any] = []
    expected: list[Any] = []
    for vector, rows in ((serial, expected), (envs, seen)):
        rows.append(vector.reset(seed=[1, 2, 3])[0])
        rows += [vector.step(ACTIONS)[0] for _ in range(4)]
        vector.close()
    assert len({row["said"] for row in expected}) > 1
    for one, other in zip(seen, expected, strict=True):
        assert one["said"] == other["said"]
        np.testing.assert_array_equal(one["x"], other["x"])


@pytest.mark.parametrize("workers", [1, 2])
def test_what_an_environment_costs_is_found_out_in_the_first_process(workers: int) -> None:
    envs = WorkerVectorEnv(make_env_factory(Faulty), 2, workers=workers)
    before = envs.reset(seed=[1, 2])[0].tolist()
    cost = envs.cost()
    assert 0 < cost.step_s < 1
    assert envs.restart(0, 1)[0].tolist()[0] == before[0][0]
    envs.close()


def test_blocks_may_differ_in_their_limit_and_the_first_is_told() -> None:
    def limited() -> Any:
        return gym.wrappers.TimeLimit(Faulty(), os.getpid())

    limited.__module__ = "__main__"
    envs = WorkerVectorEnv(make_env_factory(limited), 2, workers=2)
    assert envs.max_episode_steps == envs.processes[0].pid
    envs.close()


@pytest.mark.parametrize("bad", [2, 3])
def test_the_environment_that_failed_is_the_first_of_its_block_to_be_started_anew(bad: int) -> None:
    restarts = Restarts(4, 2, root=5, wait=lambda seconds: None)
    seeds = [10, 11, 12, 13]
    factory = make_env_factory(partial(Faulty, "SIGKILL", "step", 1, seeds[bad]))
    envs = WorkerVectorEnv(factory, 4, workers=2, restarts=restarts)
    envs.reset(seed=seeds)
    envs.step(np.array([1, 1, 1, 1]))
    other = 5 - bad
    assert [restart.env_index for restart in restarts.pending] == [bad, other]
    told, untold = restarts.pending[0].failure, restarts.pending[1].failure
    assert told is not None
    assert (told.env_index, untold) == (bad, None)
    assert restarts.counts == [0, 0, 1, 1]
    envs.close()


def test_after_a_failure_only_those_are_waited_for_that_have_not_told_theirs() -> None:
    asked: list[tuple[set[int], float | None]] = []
    over: list[tuple[int, set[int]]] = []
    with nothing_left():
        envs = WorkerVectorEnv(make_env_factory(partial(Faulty, "raise", at=1)), 3, workers=3)
        answers = envs._crew.answers

        def noted(awaited: set[int], limit: float | None = None, *, stacks: bool = True) -> Iterator[Any]:
            asked.append((set(awaited), limit))
            for answer in answers(awaited, limit, stacks=stacks):
                yield answer
                over.append((answer[0], set(awaited)))

        envs.reset(seed=[1, 2, 3])
        envs._crew.answers = noted  # type: ignore[method-assign]
        with pytest.raises(RunFailedError, match="Environment 0 "):
            envs.step(ACTIONS)
    (all_three, limit), (others, settle) = asked[:2]
    assert (all_three, limit) == ({0, 1, 2}, None)
    assert len(others) == 2
    assert (settle, others < all_three) == (0.5, True)
    assert sorted(number for number, _ in over) == sorted(others)
    assert all(number not in awaited for number, awaited in over)
    assert over[-1][1] == set()


@pytest.mark.parametrize("arguments", [{"context": "fork"}, {"workers": 0}, {"timeout": 0.0}])
def test_what_cannot_be_is_refused_before_anything_is_started(arguments: dict[str, Any]) -> None:
    with nothing_left(), pytest.raises(UserError) as caught:
        WorkerVectorEnv(make_env_factory(Faulty), 1, **arguments)
    assert caught.value.remedy


def test_the_first_that_cannot_be_closed_is_told_when_all_have_ended() -> None:
    with nothing_left():
        envs = WorkerVectorEnv(make_env_factory(partial(Faulty, "raise", "close")), 3, workers=2)
        envs.reset(seed=[1, 2, 3])
        with pytest.raises(RunFailedError, match=r"Environment [01] raised MotorError in close\(\)"):
            envs.close()
        with pytest.raises(RunFailedError, match="are closed"):
            envs.step(ACTIONS)
    assert not any(process.is_alive() for process in envs._crew.processes)
