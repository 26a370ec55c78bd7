"""Cases from public bug reports, with their kind: DQN, DDPG, TD3 and SAC through the public interface."""

from __future__ import annotations

import itertools
import tracemalloc
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import steadyrl as srl
from steadyrl.algorithms import SAC, TD3
from steadyrl.algorithms.dqn import DQN
from steadyrl.training.agent import Agent
from support.envs import Ending, Scripted
from support.off_policy import AGENTS, agent_of, loop_of, numbers
from support.off_policy_agents import BOX, KINDS, UNEVEN, check_prediction, kept, sent
from support.training_envs import Keeper

NEVER = 10**6
CONTINUOUS = ["ddpg", "td3", "sac"]


@pytest.mark.parametrize("algo", ["dqn", "sac"])
@pytest.mark.parametrize("action", [spaces.Discrete(3, start=-1), spaces.Discrete(4, start=7)], ids=str)
def test_case_1_integer_actions_arrive_as_the_environment_counts_them(algo: str, action: spaces.Discrete) -> None:
    agent = kept(algo, BOX, action, learning_starts=40)
    for start, end in ((0, 20), (20, None)):  # at random, and chosen
        seen = np.concatenate([actions[start:end] for actions in sent()])
        assert seen.min() >= action.start
        assert seen.max() < action.start + action.n
    assert set(np.concatenate(sent()).tolist()) == set(range(int(action.start), int(action.start + action.n)))
    check_prediction(agent, BOX, action)


@pytest.mark.parametrize("algo", CONTINUOUS)
@pytest.mark.parametrize(
    ("action", "what"),
    [
        (spaces.Box(-np.inf, np.inf, (2,), np.float32), r"dimension 0 of the action space is not bounded"),
        (spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, np.inf]), dtype=np.float64), r"dimension 1 .* high inf"),
    ],
    ids=["unbounded", "one-sided"],
)
def test_case_2_actions_without_bounds_are_refused_with_the_cure_and_ppo_runs(
    algo: str, action: spaces.Box, what: str
) -> None:
    Keeper.made.clear()
    env = partial(Keeper, BOX, action)
    with pytest.raises(srl.UserError, match=f"{algo.upper()} scales actions to their bounds, but {what}") as caught:
        agent_of(algo, env)
    assert "finite bounds" in caught.value.remedy
    assert "PPO" in caught.value.remedy
    assert not sent()  # before the first step
    ppo = srl.PPO(env, preset="none", n_steps=16, batch_size=16, n_epochs=1)
    ppo.learn(32)
    ppo.close()
    assert np.isfinite(np.concatenate(sent())).all()


@pytest.mark.parametrize(
    ("algo", "options"), [("ddpg", {}), ("td3", {}), ("sac", {}), ("sac", {"use_sde": True})], ids=str
)
@pytest.mark.parametrize(
    "action",
    [
        spaces.Box(-2.0, 0.0, (2,), np.float32),
        UNEVEN,
        spaces.Box(np.array([-1.0, 0.0], dtype=np.float32), np.array([1.0, 100.0], dtype=np.float32)),
    ],
    ids=str,
)
def test_case_3_actions_stay_in_bounds_and_noise_is_scaled_by_dimension_and_environment(
    algo: str, action: spaces.Box, options: dict[str, Any]
) -> None:
    agent = kept(algo, BOX, action, 400, learning_starts=100, train_freq=NEVER, **options)
    rows = sent()  # whose bounds, dtype and shape the environment asserted
    half, middle = (action.high - action.low) / 2, (action.high + action.low) / 2
    for start, end in ((0, 50), (50, None)):
        unit = [(row[start:end] - middle) / half for row in rows]
        assert not np.isclose(unit[0], unit[1]).all(axis=1).any()
        spread = np.concatenate(unit).std(axis=0)
        assert spread.max() < 2 * spread.min()  # scaled to the bounds, no dimension is noisier than another
        for i, j in itertools.combinations(range(2), 2):
            assert abs(np.corrcoef(unit[0][:, i], unit[1][:, j])[0, 1]) < 0.4
    # What is stored is what was done, in [-1, 1].
    batch = loop_of(agent).replay.gather(loop_of(agent).replay.indices())
    stored = numbers(batch.actions).reshape(-1, 2, 2)
    assert np.abs(stored).max() <= 1.0
    for env_index, row in enumerate(rows):
        np.testing.assert_allclose(stored[:, env_index] * half + middle, row[: len(stored)], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("algo", CONTINUOUS)
def test_case_3_noise_differs_in_every_environment_and_dimension(algo: str) -> None:
    options: dict[str, Any] = {} if algo == "sac" else {"action_noise_std": 0.3}
    kept(algo, spaces.Box(-1.0, 1.0, (1,), np.float32), UNEVEN, 800, learning_starts=0, train_freq=NEVER, **options)
    first, second = ((row - [0.0, 50.0]) / [1.0, 50.0] for row in sent())
    n = min(len(first), len(second))
    for a, b in itertools.combinations([first[:n, 0], first[:n, 1], second[:n, 0], second[:n, 1]], 2):
        assert abs(np.corrcoef(np.diff(a), np.diff(b))[0, 1]) < 0.35


@pytest.mark.parametrize("algo", AGENTS)
@pytest.mark.parametrize("observation", [np.float64, np.float16, np.uint8])
@pytest.mark.parametrize("action", [np.float64, np.float32])
def test_case_4_dtypes_are_the_environments_own(algo: str, observation: Any, action: Any) -> None:
    space: gym.Space[Any] = spaces.Discrete(2) if algo == "dqn" else spaces.Box(-2, 2, (2,), action)
    box = spaces.Box(0, 10, (3,), observation)
    check_prediction(kept(algo, box, space, 40), box, space)


def of_length(algo: str, length: int, n_step: int) -> Agent:
    """15 steps of episodes that are only ever truncated, after `length` steps."""
    env: Any = partial(Scripted, [Ending(length, False, True)])
    if algo in ("td3", "ddpg"):
        env = partial(Continuous, [Ending(length, False, True)])
    agent = agent_of(algo, env, num_envs=1, gamma=0.9, n_step=n_step, learning_starts=NEVER)
    agent.learn(15)
    agent.close()
    return agent


class Continuous(Scripted):
    """`Scripted` with a continuous action that means 0, 1 or 2."""

    def __init__(self, script: Any) -> None:
        super().__init__(script)
        self.discrete = self.action_space
        self.action_space = spaces.Box(0.0, 2.0, (1,), np.float32)

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        chosen = np.int64(np.rint(action[0]))
        self.action_space, box = self.discrete, self.action_space
        try:
            return super().step(chosen)
        finally:
            self.action_space = box


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("length", [1, 2, 4])
@pytest.mark.parametrize("algo", ["dqn", "td3", "sac"])
def test_case_9_a_truncated_step_is_worth_gamma_times_the_value_of_the_true_final_observation(
    algo: str, length: int, n_step: int
) -> None:
    agent = of_length(algo, length, n_step)
    replay, algorithm = loop_of(agent).replay, loop_of(agent).algorithm
    batch = replay.gather(replay.indices())
    start = numbers(batch.obs[""])
    k = np.minimum(np.minimum(n_step, length - start[:, 1]), 15 - np.arange(15)).astype(int)
    last = numbers(batch.next_obs[""])
    np.testing.assert_array_equal(last[:, 0], start[:, 0])  # never of the next episode
    np.testing.assert_array_equal(last[:, 1], start[:, 1] + k)
    np.testing.assert_allclose(numbers(batch.discounts), 0.9**k, rtol=1e-6)
    steps = numbers(replay.gather(replay.indices()).obs[""])
    single = replay._flat["rewards"][:15]
    expected = [sum(0.9**j * single[i + j] for j in range(k[i])) for i in range(len(steps))]
    np.testing.assert_allclose(numbers(batch.rewards), expected, rtol=1e-5)
    # Nothing terminated, so every target holds the discounted value of its successor.
    assert not batch.terminated.any()
    if isinstance(algorithm, DQN):
        values = agent.policy.values({"": batch.next_obs[""].numpy()})
        targets = algorithm._targets(batch)
    elif isinstance(algorithm, TD3):
        algorithm._smoothing.normal = lambda shape: np.zeros(shape, dtype=np.float32)  # type: ignore[method-assign]
        values = agent.policy.values({"": batch.next_obs[""].numpy()})
        targets = algorithm._targets(batch)
    else:
        assert not isinstance(algorithm, SAC)  # actions are discrete here
        values = agent.policy.net.critic(batch.next_obs).detach()
        targets = algorithm._targets(batch, torch.tensor(0.0))  # type: ignore[attr-defined]
    np.testing.assert_allclose(numbers(targets), expected + 0.9**k * numbers(values), rtol=1e-4)
    assert numbers(values).any()


def test_case_9_a_terminated_step_is_worth_its_reward_alone() -> None:
    agent = agent_of("dqn", partial(Scripted, [Ending(1, True, False), Ending(1, True, True)]), learning_starts=NEVER)
    agent.learn(8)
    agent.close()
    batch = loop_of(agent).replay.gather(loop_of(agent).replay.indices())
    algorithm = loop_of(agent).algorithm
    assert isinstance(algorithm, DQN)
    assert torch.equal(algorithm._targets(batch), batch.rewards)


@pytest.mark.parametrize(
    "observation",
    [
        spaces.Discrete(500),
        spaces.MultiBinary((8, 8)),
        spaces.MultiDiscrete(np.array([[3, 4], [2, 2]]), start=np.array([[1, 1], [0, -3]])),
        spaces.Box(-1.0, 1.0, (2, 3), np.float32),
        spaces.Box(-1.0, 1.0, (), np.float32),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["dqn", "td3", "sac"])
def test_case_16_observations_of_every_space(kind: str, observation: gym.Space[Any]) -> None:
    algo, action, options = KINDS[kind]
    check_prediction(kept(algo, observation, action, 40, **options), observation, action)


@pytest.mark.parametrize("algo", ["dqn", "sac"])
def test_case_16_taxi_in_four_environments(algo: str) -> None:
    agent = agent_of(algo, "Taxi-v3" if "Taxi-v3" in gym.registry else "Taxi-v4", num_envs=4)
    agent.learn(60)
    agent.close()
    assert agent.predict(499, deterministic=True)[0].shape == ()


@pytest.mark.parametrize("algo", AGENTS)
def test_case_18_a_replay_that_does_not_fit_is_refused_before_the_start(algo: str) -> None:
    action: gym.Space[Any] = spaces.Discrete(2) if algo == "dqn" else spaces.Box(-1.0, 1.0, (1,), np.float32)
    image = spaces.Box(0, 255, (3, 960, 720), np.uint8)
    env = partial(Keeper, image, action)
    Keeper.made.clear()
    tracemalloc.start()
    try:
        with pytest.raises(srl.UserError) as caught:
            agent_of(algo, env, buffer_size=1_000_000, num_envs=4)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
    assert caught.value.code == "no-memory"
    # 3 * 960 * 720 bytes for each of two observations, and the small things beside them.
    assert "buffer_size 1000000 takes 4.1 TB, but 0.7 of the" in caught.value.message
    assert "of free memory is" in caught.value.message
    assert "Set buffer_size (--buffer-size) to at most" in caught.value.remedy
    assert "--memory-limit" in caught.value.remedy
    fits = int(caught.value.remedy.split("at most ")[1].split(",")[0])
    assert fits % 4 == 0
    assert 0 < fits < 1_000_000
    assert not sent()


def test_case_18_the_limit_is_the_users() -> None:
    one = 3 * 4 + 3 * 4 + 8 + 4 + 3  # two observations, an action, a reward, three flags
    env = partial(Keeper, BOX, spaces.Discrete(2))
    agent_of("dqn", env, buffer_size=1000, memory_limit=f"{one}kB").close()
    with pytest.raises(srl.UserError, match="buffer_size 1001 takes 39 kB, but the memory limit is 39 kB") as caught:
        agent_of("dqn", env, buffer_size=1001, memory_limit=f"{one}kB")
    assert "at most 1000," in caught.value.remedy


@pytest.mark.parametrize("prioritized", [False, True], ids=["uniform", "prioritised"])
@pytest.mark.parametrize("n_step", [1, 3])
def test_case_22_nothing_beyond_the_newest_row_is_ever_sampled(n_step: int, prioritized: bool) -> None:
    agent = agent_of(
        "dqn",
        partial(Scripted, [Ending(50, True, False)]),
        num_envs=3,
        buffer_size=90,
        n_step=n_step,
        prioritized=prioritized,
        learning_starts=NEVER,
    )
    done = 0
    for steps in (1, 6, 14, 60, 30):  # less than a row, not full, full, overwritten
        agent.learn(steps, schedule_steps=1000)
        done += steps
        batch = loop_of(agent).sample(400)
        rows = numbers(batch.next_obs[""])
        assert (rows[:, 1] > numbers(batch.obs[""])[:, 1]).all()  # an unwritten one would be 0
        assert (rows[:, 1] <= numbers(batch.obs[""])[:, 1] + n_step).all()
        assert (batch.rewards > 0).all()
        number = batch.index
        assert len(torch.unique(number)) == len(loop_of(agent).replay) if done < 40 else len(torch.unique(number)) > 40
    agent.close()
