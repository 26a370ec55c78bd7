"""The same seed gives DQN, DDPG, TD3 and SAC the same bits, however calls are cut and whatever is evaluated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
import torch

import steadyrl as srl
from steadyrl.training.agent import Agent
from support.off_policy import AGENTS, agent_of, loop_of

SLICED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "dqn": ("dqn", "CartPole-v1", {"train_freq": 8, "target_update_interval": 60}),
    "dqn-everything": (
        "dqn",
        "CartPole-v1",
        {
            "train_freq": 12, "gradient_steps": 2, "target_update_interval": 50, "tau": 0.5, "double": True,
            "dueling": True, "prioritized": True, "prioritized_beta": srl.LinearSchedule(0.4, 1.0), "n_step": 3,
            "normalize_obs": True,
        },
    ),
    "dqn-c51": ("dqn", "CartPole-v1", {"train_freq": 16, "head": "c51", "v_min": 0.0, "v_max": 50.0}),
    "ddpg": ("ddpg", "Pendulum-v1", {"train_freq": 16, "gradient_steps": 2}),
    "td3": ("td3", "Pendulum-v1", {"train_freq": 28, "gradient_steps": 3, "n_step": 3}),
    "td3-correlated": (
        "td3",
        "Pendulum-v1",
        {"train_freq": 32, "action_noise_type": "ornstein-uhlenbeck", "action_noise_std": srl.LinearSchedule(0.3, 0.0)},
    ),
    "sac": ("sac", "Pendulum-v1", {"train_freq": 16, "gradient_steps": -1, "normalize_obs": True}),
    "sac-gsde": ("sac", "Pendulum-v1", {"train_freq": 36, "use_sde": True}),
    "sac-gsde-kept": ("sac", "Pendulum-v1", {"train_freq": 36, "use_sde": True, "sde_sample_freq": 7}),
    "sac-discrete": ("sac", "CartPole-v1", {"train_freq": 28}),
}  # fmt: skip


@pytest.mark.parametrize("name", SLICED)
def test_ten_calls_equal_one(name: str) -> None:
    algo, env, options = SLICED[name]
    rate = srl.LinearSchedule(1e-2, 0.0)
    settings = {"num_envs": 4, "seed": 5, "learning_rate": rate, "learning_starts": 100, "batch_size": 8, **options}
    if options.get("gradient_steps") == -1:
        settings["gradient_steps"] = 2
    one, ten, undeclared = (agent_of(algo, env, **settings) for _ in range(3))
    one.learn(1000)
    for _ in range(10):
        ten.learn(100, schedule_steps=1000)
        undeclared.learn(100)
    assert one.loop.counters == ten.loop.counters
    assert one.loop.counters.updates >= 20
    assert ten.policy.sha256() == one.policy.sha256()
    assert undeclared.policy.sha256() != one.policy.sha256()  # so the declared total is what makes them equal
    for agent in (one, ten, undeclared):
        agent.close()


# Trains every configuration of a table once and prints its hash, the number of updates and of evaluations.
PROGRAM = """
import json, sys
from steadyrl.training.events import EvaluationEnded
from support.off_policy import agent_of

if __name__ == "__main__":
    found = {}
    for name, (algo, env, options) in json.loads(sys.argv[1]).items():
        evaluations = []
        agent = agent_of(algo, env, seed=3, num_envs=2, train_freq=4, **options)
        agent.learn(400, callback=lambda event: evaluations.append(isinstance(event, EvaluationEnded)))
        agent.close()
        found[name] = [agent.policy.sha256(), agent.loop.counters.updates, sum(evaluations)]
    print(json.dumps(found))
"""
PROBLEMS = {"dqn": "CartPole-v1", "td3": "Pendulum-v1", "sac": "Pendulum-v1"}


def table() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Name -> algorithm, environment, options; the names start with what must be equal."""
    evaluated = {"eval_freq": 100, "eval_episodes": 2, "max_episode_steps": 30}
    plain = {"max_episode_steps": 30}
    rows: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for algo, env in PROBLEMS.items():
        rows[f"{algo}/sync/off"] = (algo, env, plain | {"vec": "sync"})
        rows[f"{algo}/sync/on"] = (algo, env, evaluated | {"vec": "sync"})
        rows[f"{algo}/async/on"] = (algo, env, evaluated | {"vec": "async"})
    return rows


@cache
def results(omp_threads: int, backwards: bool) -> dict[str, tuple[str, int, int]]:
    """What a fresh process makes of the table."""
    rows = list(table().items())
    if backwards:
        rows = [row for row in rows[::-1] if "async" not in row[0]]
    environment = os.environ | {"OMP_NUM_THREADS": str(omp_threads), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, json.dumps(dict(rows))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return {name: tuple(row) for name, row in json.loads(done.stdout).items()}


def test_evaluation_and_the_way_of_stepping_leave_no_trace_in_the_weights() -> None:
    found = results(1, backwards=False)
    for name, (_, updates, evaluations) in found.items():
        assert updates >= 3
        assert evaluations >= 2 if name.endswith("/on") else evaluations == 0
    hashes = {algo: {sha for name, (sha, _, _) in found.items() if name.startswith(algo)} for algo in PROBLEMS}
    assert {algo: len(shas) for algo, shas in hashes.items()} == dict.fromkeys(PROBLEMS, 1)
    assert len(set.union(*hashes.values())) == 3


def test_another_process_gives_the_same_bits_whatever_was_trained_before() -> None:
    again = results(2, backwards=True)
    assert len(again) == 6
    assert again == {name: row for name, row in results(1, backwards=False).items() if name in again}


STREAMS = {
    "dqn": ("_actions",),
    "td3": ("_random", "_smoothing"),
    "sac": ("_random", "_sampling"),
}


@pytest.mark.parametrize("algo", STREAMS)
def test_the_hash_sees_one_extra_draw_of_any_stream_and_one_bit(algo: str) -> None:
    def digest(disturb: Callable[[Agent], object] = lambda agent: None) -> str:
        agent = agent_of(algo, PROBLEMS[algo], num_envs=2, train_freq=4, seed=3)
        disturb(agent)
        agent.learn(100)
        agent.close()
        assert agent.loop.counters.updates >= 3
        return agent.policy.sha256()

    def one_draw(name: str, agent: Agent) -> None:
        getattr(loop_of(agent).algorithm, name).uniform((1,))

    def one_bit(agent: Agent) -> None:
        with torch.no_grad():
            next(agent.policy.net.parameters()).data.view(torch.int32)[0, 0] ^= 1

    expected = digest()
    assert digest() == expected
    assert digest(one_bit) != expected
    assert digest(lambda agent: loop_of(agent)._sampling.uniform((1,))) != expected
    for name in STREAMS[algo]:
        assert digest(partial(one_draw, name)) != expected


@pytest.mark.parametrize("algo", AGENTS)
def test_different_seeds_differ_and_the_same_one_does_not(algo: str) -> None:
    env = "CartPole-v1" if algo == "dqn" else "Pendulum-v1"
    hashes = []
    for seed in (0, 1, 0):
        agent = agent_of(algo, env, seed=seed, train_freq=4)
        agent.learn(60)
        agent.close()
        hashes.append(agent.policy.sha256())
    assert hashes[0] == hashes[2] != hashes[1]
