"""The same trajectories and the same trained weights, however the environments are spread over processes."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any, cast

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import steadyrl as srl
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.serial import SerialVectorEnv
from steadyrl.envs.vector import make_vec
from steadyrl.envs.workers.vector import WorkerVectorEnv
from support.envs import SpaceProbe
from support.faults import Faulty

N = 5
SPACES: list[gym.Space[Any]] = [
    spaces.Box(-np.inf, np.inf, (2, 3), np.float64),
    spaces.Box(0, 255, (4, 4, 3), np.uint8),
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])),
    spaces.MultiBinary(3),
    spaces.Dict({"eye": spaces.Box(0, 255, (2, 2), np.uint8), "where": spaces.Discrete(4), "b": spaces.Box(-1, 1)}),
    spaces.Tuple((spaces.Discrete(3), spaces.Dict({"x": spaces.Box(-1, 1, (2,)), "y": spaces.MultiBinary(2)}))),
    spaces.Text(6),  # goes over the connection, as what has no fixed size does
    spaces.Sequence(spaces.Discrete(4)),
    spaces.Dict({"said": spaces.Text(6), "eye": spaces.Tuple((spaces.Box(0, 255, (2, 2), np.uint8),))}),
]


def equal(a: Any, b: Any) -> bool:
    """Whether two trees are the same to the bit, in type, dtype and order too."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, np.ndarray):
        if a.dtype == object:
            return a.shape == b.shape and all(map(equal, a.ravel().tolist(), b.ravel().tolist()))
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    return bool(a == b)


def trajectory(envs: Any, actions: Any) -> list[Any]:
    try:
        seen = [envs.reset(seed=[7 * i + 3 for i in range(N)])]
        seen += [envs.step(row) for row in actions]
        seen.append(envs.reset())
        seen.append(envs.step(actions[0]))
    finally:
        envs.close()
    return seen


def probe(space: gym.Space[Any]) -> gym.Env[Any, Any]:
    return SpaceProbe(copy.deepcopy(space), spaces.MultiDiscrete([3, 4]), horizon=4)


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_any_space_gives_what_one_process_gives(space: gym.Space[Any]) -> None:
    factory = make_env_factory(partial(probe, space))
    actions = np.random.default_rng(0).integers(0, 3, (9, N, 2))
    serial = SerialVectorEnv([factory(index=i) for i in range(N)])
    expected = trajectory(serial, actions)
    found = trajectory(WorkerVectorEnv(factory, N, workers=2), actions)
    assert equal(found, expected)
    assert any("final_obs" in step[4] for step in expected[1:-2])


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_delays_and_the_number_of_workers_change_nothing(workers: int) -> None:
    factory = make_env_factory(partial(Faulty, delay=0.004))
    actions = np.random.default_rng(1).integers(0, 3, (20, N))
    expected = trajectory(SerialVectorEnv([factory(index=i) for i in range(N)]), actions)
    vector = WorkerVectorEnv(factory, N, workers=workers)
    assert len(vector.processes) == workers
    assert equal(trajectory(vector, actions), expected)


def test_two_runs_of_different_seeds_would_differ() -> None:
    factory = make_env_factory(Faulty)
    actions = np.zeros((3, N), np.int64)
    first = trajectory(SerialVectorEnv([factory(index=i) for i in range(N)]), actions)
    envs = SerialVectorEnv([factory(index=i) for i in range(N)])
    assert not equal(envs.reset(seed=[1] * N), first[0])


TRAININGS: dict[str, dict[str, Any]] = {
    "ppo": {"n_steps": 8, "batch_size": 16, "n_epochs": 2, "num_envs": 4},
    "dqn": {"learning_starts": 8, "batch_size": 8, "buffer_size": 200, "train_freq": 4, "num_envs": 4},
}


def weights(algo: str, **how: Any) -> tuple[str, int]:
    """Hash of the weights after a short training in slow environments, and its updates."""
    env = partial(Faulty, delay=0.002)
    agent = {"ppo": srl.PPO, "dqn": srl.DQN}[algo](env, preset="none", eval_freq=0, **TRAININGS[algo], **how)
    agent.learn(128)
    updates = agent.loop.counters.updates
    sha = agent.policy.sha256()
    agent.close()
    return sha, updates


@pytest.mark.parametrize("algo", TRAININGS)
def test_trained_weights_are_the_same(algo: str) -> None:
    expected, updates = weights(algo, vec="sync")
    assert updates >= 3
    assert weights(algo, vec="sync", seed=1)[0] != expected
    for workers in (1, 2, 4):
        assert weights(algo, vec="async", num_workers=workers) == (expected, updates)


def test_workers_need_the_backend_that_has_them() -> None:
    with pytest.raises(srl.errors.UserError, match="num_workers is 2, but vec='auto' has no workers"):
        make_vec(Faulty, 2, num_workers=2)
    envs = make_vec(Faulty, 3, vec="async", num_workers=8)
    assert len(cast("WorkerVectorEnv", envs._env).processes) == 3
    envs.close()
