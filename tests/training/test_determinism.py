"""The same seed gives the same bits, whatever is evaluated, however environments are stepped, and in any process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import steadyrl as srl
from steadyrl.training.agent import Agent
from steadyrl.training.events import EvaluationEnded, Event
from support.spies import lessons_not_learnt, rollouts_of, tap
from support.training_envs import GlobalDrawer, Legs

SMALL: dict[str, Any] = {"n_steps": 64, "batch_size": 32, "n_epochs": 2, "num_envs": 4, "preset": "none"}
LARGE: dict[str, Any] = {
    "n_steps": 256, "batch_size": 256, "n_epochs": 2, "num_envs": 2, "preset": "none", "net_arch": (256, 256)
}  # fmt: skip

# Trains every configuration of a table once and prints its hash, the number of updates and of evaluations.
PROGRAM = """
import json, sys
import steadyrl as srl
from steadyrl.training.events import EvaluationEnded
from support.training_envs import Legs

if __name__ == "__main__":
    found = {}
    for name, (env, steps, options) in json.loads(sys.argv[1]).items():
        evaluations = []
        agent = srl.PPO(Legs if env == "Legs" else env, seed=3, **options)
        agent.learn(steps, callback=lambda event: evaluations.append(isinstance(event, EvaluationEnded)))
        agent.close()
        found[name] = [agent.policy.sha256(), agent.loop.counters.updates, sum(evaluations)]
    print(json.dumps(found))
"""


def table() -> dict[str, tuple[str, int, dict[str, Any]]]:
    """Name -> environment, steps, options; the names start with what must be equal."""
    rows: dict[str, tuple[str, int, dict[str, Any]]] = {}
    for env, steps, sizes in (("CartPole-v1", 1024, SMALL), ("Legs", 2048, LARGE)):
        for vec in ("sync", "async"):
            for evaluated in ("off", "on"):
                options = {**sizes, "vec": vec}
                if evaluated == "on":
                    options |= {"eval_freq": steps // 4, "eval_episodes": 2}
                rows[f"{env}/{vec}/{evaluated}"] = (env, steps, options)
    rows["Legs of two threads/sync/off"] = ("Legs", 2048, {**LARGE, "threads": 2})
    return rows


@cache
def results(omp_threads: int, backwards: bool) -> dict[str, tuple[str, int, int]]:
    """What a fresh process makes of the table."""
    rows = list(table().items())
    environment = os.environ | {"OMP_NUM_THREADS": str(omp_threads), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, json.dumps(dict(rows[::-1] if backwards else rows))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return {name: tuple(row) for name, row in json.loads(done.stdout).items()}


def hashes_by_problem(found: dict[str, tuple[str, int, int]]) -> dict[str, set[str]]:
    problems: dict[str, set[str]] = {}
    for name, (sha, _, _) in found.items():
        problems.setdefault(name.partition("/")[0], set()).add(sha)
    return problems


def test_every_run_of_the_table_learnt_and_was_evaluated() -> None:
    for name, (_, updates, evaluations) in results(1, backwards=False).items():
        assert updates >= 3
        assert evaluations >= 2 if name.endswith("/on") else evaluations == 0


def test_evaluation_and_the_way_of_stepping_leave_no_trace_in_the_weights() -> None:
    problems = hashes_by_problem(results(1, backwards=False))
    assert {name: len(hashes) for name, hashes in problems.items()} == dict.fromkeys(problems, 1)
    assert problems["CartPole-v1"].isdisjoint(problems["Legs"])


def test_another_process_gives_the_same_bits_whatever_its_thread_variable_and_what_was_trained_before() -> None:
    assert results(2, backwards=True) == results(1, backwards=False)


def cartpole(**options: Any) -> Agent:
    return srl.PPO("CartPole-v1", **{**SMALL, "seed": 3, **options})


def digest(agent: Agent, steps: int = 1024) -> str:
    agent.learn(steps)
    agent.close()
    return agent.policy.sha256()


def test_the_hash_sees_one_extra_draw_of_any_stream_and_one_bit() -> None:
    expected = digest(cartpole())
    assert digest(cartpole()) == expected

    actions = cartpole()
    rollouts_of(actions).algorithm.exploration.draw(0)
    assert digest(actions) != expected

    order = cartpole()
    rollouts_of(order).algorithm._order.uniform((1,))  # type: ignore[attr-defined]
    assert digest(order) != expected

    bit = cartpole()
    with torch.no_grad():
        next(bit.policy.net.parameters()).data.view(torch.int32)[0, 0] ^= 1
    assert digest(bit) != expected


@pytest.mark.parametrize("make", [srl.PPO, srl.A2C])
def test_different_seeds_differ_and_the_same_one_does_not(make: Callable[..., Agent]) -> None:
    hashes = [digest(make("CartPole-v1", preset="none", n_steps=64, seed=seed), 256) for seed in (0, 1, 2, 0)]
    assert len(set(hashes)) == 3
    assert hashes[0] == hashes[3]


def first_observations(agent: Agent) -> Any:
    """What the environments show first, [N, ...]."""
    seen: list[Any] = []
    tap(rollouts_of(agent).rollout, "add", lambda obs, *rest: seen.append(obs[""].copy()))
    agent.learn(agent.config.num_envs)
    agent.close()
    return seen[0]


def test_env_seed_and_algo_seed_fix_their_level_alone() -> None:
    weights, starts = {}, {}
    for name, options in {
        "plain": {"seed": 1},
        "other": {"seed": 2},
        "algo fixed": {"seed": 2, "algo_seed": 1},
        "env fixed": {"seed": 2, "env_seed": 1},
    }.items():
        agent = cartpole(**options)
        weights[name] = agent.policy.sha256()
        starts[name] = first_observations(agent).tobytes()
    assert weights["algo fixed"] == weights["plain"]
    assert weights["env fixed"] == weights["other"] != weights["plain"]
    assert starts["env fixed"] == starts["plain"]
    assert starts["algo fixed"] == starts["other"] != starts["plain"]


def test_environments_and_episodes_of_a_run_start_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = cartpole()
    starts: set[bytes] = set()
    step = agent.loop.venv.step
    episodes = 0

    def spy(actions: Any) -> Any:
        nonlocal episodes
        result = step(actions)
        for episode in result.episodes:
            episodes += 1
            starts.add(result.obs[""][episode.env_index].tobytes())
        return result

    monkeypatch.setattr(agent.loop.venv, "step", spy)
    agent.learn(2000)
    assert episodes > 20
    assert len(starts) == episodes


SHORT: dict[str, Any] = {"n_steps": 30, "batch_size": 32, "n_epochs": 2}
SLICED: dict[str, tuple[Callable[..., Agent], str, dict[str, Any]]] = {
    "ppo": (srl.PPO, "CartPole-v1", {"n_steps": 25, "batch_size": 20, "n_epochs": 3}),
    "ppo-odd-rollout": (srl.PPO, "CartPole-v1", {"n_steps": 37, "batch_size": 16, "n_epochs": 2}),
    "ppo-longer-rollout": (srl.PPO, "CartPole-v1", {"n_steps": 80, "batch_size": 64, "n_epochs": 2}),
    "ppo-normalised": (srl.PPO, "Pendulum-v1", {**SHORT, "normalize_obs": True, "normalize_reward": True}),
    "ppo-gsde": (srl.PPO, "Pendulum-v1", {**SHORT, "use_sde": True, "sde_sample_freq": 7}),
    "ppo-gsde-squashed": (srl.PPO, "Pendulum-v1", {**SHORT, "use_sde": True, "squash_output": True}),
    "a2c": (srl.A2C, "CartPole-v1", {"n_steps": 7}),
    "a2c-normalised": (srl.A2C, "Pendulum-v1", {"n_steps": 8, "normalize_obs": True, "normalize_reward": True}),
    "a2c-gsde": (srl.A2C, "Pendulum-v1", {"n_steps": 8, "use_sde": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", SLICED)
def test_ten_calls_equal_one(name: str) -> None:
    make, env, options = SLICED[name]
    rate = srl.LinearSchedule(1e-3, 0.0)
    one, ten, undeclared = (
        make(env, preset="none", num_envs=4, seed=5, learning_rate=rate, **options) for _ in range(3)
    )
    one.learn(1000)
    for _ in range(10):
        ten.learn(100, schedule_steps=1000)
        undeclared.learn(100)
    assert one.loop.counters == ten.loop.counters
    assert one.loop.counters.updates >= 3
    assert ten.policy.sha256() == one.policy.sha256()
    assert ten.policy.value_scale == one.policy.value_scale
    assert undeclared.policy.sha256() != one.policy.sha256()  # so the declared total is what makes them equal
    for agent in (one, ten, undeclared):
        agent.close()


def test_an_evaluation_that_draws_from_the_global_generator_does_not_disturb_training() -> None:
    def run(**options: Any) -> tuple[str, int]:
        np.random.seed(0)
        torch.manual_seed(0)
        evaluations: list[Event] = []
        agent = srl.PPO(GlobalDrawer, **{**SMALL, **options})
        agent.learn(1024, callback=evaluations.append)
        agent.close()
        return agent.policy.sha256(), sum(isinstance(event, EvaluationEnded) for event in evaluations)

    (without, none), (with_, some) = run(), run(eval_freq=200, eval_episodes=3)
    assert none == 0
    assert some >= 2
    assert with_ == without
    np.random.seed(1)
    other = srl.PPO(GlobalDrawer, **SMALL)
    assert digest(other) != without  # the generator does decide what is learnt


def test_predicting_and_evaluating_between_two_calls_do_not_disturb_training() -> None:
    def run(*, disturbed: bool) -> str:
        agent = cartpole()
        for _ in range(4):
            agent.learn(256, schedule_steps=1024)
            if disturbed:
                agent.predict(np.zeros(4, dtype=np.float32))
                agent.value(np.zeros((3, 4), dtype=np.float32))
                srl.evaluate(agent, episodes=2, deterministic=False)
                np.random.random()
                torch.rand(3)
        agent.close()
        return agent.policy.sha256()

    assert run(disturbed=True) == run(disturbed=False)


def test_the_first_minibatch_of_an_update_has_ratio_one() -> None:
    """Before the first step of an update the policy gives each stored action the stored probability."""
    for env, options in (
        ("CartPole-v1", {}),
        ("Pendulum-v1", {}),
        ("Pendulum-v1", {"normalize_obs": True, "normalize_reward": True}),
        ("Pendulum-v1", {"squash_output": True, "normalize_obs": True}),
        ("Pendulum-v1", {"use_sde": True}),
        ("Pendulum-v1", {"use_sde": True, "squash_output": True}),
    ):
        agent = srl.PPO(env, preset="none", num_envs=4, n_steps=32, batch_size=128, n_epochs=1, **options)
        lessons = lessons_not_learnt(agent)
        agent.learn(3 * 128)
        assert len(lessons) == 3
        for batch, _ in lessons:
            params, _ = agent.policy.net(batch.obs)
            log_probs = agent.policy.distribution.log_prob(params, batch.actions)
            torch.testing.assert_close((log_probs - batch.log_probs).exp(), torch.ones(128), rtol=0, atol=1e-5)
        agent.close()


@pytest.mark.parametrize("normalised", [False, True])
def test_a_loaded_policy_predicts_to_the_bit(normalised: bool, tmp_path: Any) -> None:
    agent = srl.PPO(Legs, **{**LARGE, "normalize_obs": normalised, "seed": 0})
    agent.learn(1024)
    agent.close()
    path = agent.save(tmp_path / "legs")
    rng = np.random.default_rng(0)
    batch = rng.normal(size=(256, 17))
    for loaded in (srl.load(path), srl.load(path, env=Legs)):
        for obs in (batch[0], batch[:1], batch[:7], batch):
            np.testing.assert_array_equal(
                loaded.predict(obs, deterministic=True)[0], agent.predict(obs, deterministic=True)[0]
            )
            np.testing.assert_array_equal(loaded.value(obs), agent.value(obs))
        loaded.close()


def test_the_process_that_loads_a_policy_evaluates_it_to_the_same_returns(tmp_path: Any) -> None:
    agent = srl.PPO(Legs, **{**LARGE, "normalize_obs": True, "seed": 0})
    agent.learn(1024)
    expected = srl.evaluate(agent, episodes=5)
    path = agent.save(tmp_path / "legs")
    agent.close()
    code = (
        "import json, sys, steadyrl as srl\n"
        "from support.training_envs import Legs\n"
        "print(json.dumps(srl.evaluate(srl.load(sys.argv[1]), episodes=5, env=Legs).returns.tolist()))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, path], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == expected.returns.tolist()


def test_ids_that_gymnasium_knows_and_callables_train_alike() -> None:
    assert digest(cartpole()) == digest(srl.PPO(partial(gym.make, "CartPole-v1"), **{**SMALL, "seed": 3}))
