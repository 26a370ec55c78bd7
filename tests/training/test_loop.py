"""The on-policy loop: what goes into a rollout, what comes out, and what survives from one step to the next."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

import steadyrl as srl
from steadyrl.nn.normalizer import RewardNormalizer
from steadyrl.training.agent import Agent
from steadyrl.training.stepping import WINDOW
from support.envs import Ending, Scripted
from support.spies import lessons_not_learnt, rollouts_of, tap
from support.training_envs import Fast, PaysVector


def agent_in(env: Any, **options: Any) -> Agent:
    return srl.A2C(env, **{"preset": "none", "num_envs": 2, "n_steps": 6, "net_arch": (8,), **options})


def test_a_rollout_keeps_what_the_policy_saw_did_and_got() -> None:
    agent = agent_in(partial(Scripted, [Ending(4, True, False)]))
    loop = rollouts_of(agent)
    for _ in range(3):
        loop.step(100, 100)
    rollout = loop.rollout
    assert rollout.length == 3
    assert rollout.obs[""][:3, 0, 1].tolist() == [0, 1, 2]
    assert rollout.obs[""][1:3, 0, 2].tolist() == rollout.actions[:2, 0].tolist()
    expected = torch.arange(1, 4)[:, None] + rollout.actions[:3] / 8
    torch.testing.assert_close(rollout.rewards[:3], expected)
    values = agent.policy.values({"": rollout.obs[""][1].numpy()})
    torch.testing.assert_close(rollout.values[1], values)
    agent.close()


def test_the_final_value_is_that_of_the_true_last_observation() -> None:
    agent = agent_in(partial(Scripted, [Ending(2, False, True), Ending(2, True, True), Ending(2, True, False)]))
    loop = rollouts_of(agent)
    for _ in range(6):
        loop.step(100, 100)
    rollout = loop.rollout
    assert rollout.truncated[:, 0].tolist() == [False, True, False, True, False, False]
    assert rollout.terminated[:, 0].tolist() == [False, False, False, True, False, True]
    for i in (0, 1):
        last = rollout.obs[""][1, i].numpy().copy()
        last[1:3] = 2, float(rollout.actions[1, i])  # the second step of the episode, after this action
        torch.testing.assert_close(rollout.final_values[1, i], agent.policy.values({"": last[None]})[0])
    agent.close()


def test_progress_is_the_step_count_before_the_rollout_over_the_total() -> None:
    agent = agent_in(Fast)
    lessons = lessons_not_learnt(agent)
    agent.learn(30, schedule_steps=60)
    agent.learn(30, schedule_steps=60)
    assert [lesson.progress for lesson in lessons] == pytest.approx([0.0, 12 / 60, 24 / 60, 36 / 60, 48 / 60])
    agent.close()


def test_the_normaliser_sees_each_observation_once_and_no_row_that_is_made_up() -> None:
    env = PaysVector(AutoresetMode.NEXT_STEP, num_envs=2, length=2)
    agent = agent_in(env, normalize_obs=True, n_steps=12)
    seen: list[Any] = []
    normalizer = agent.policy.normalizer
    assert normalizer is not None
    tap(normalizer, "update", lambda obs, mask: seen.append(int(mask.sum())))
    agent.learn(100)
    assert sum(seen) == 100
    assert normalizer.statistics[""].count == 100
    assert normalizer.statistics[""].var == pytest.approx(1 / 3, rel=0.3)  # uniform in [-1, 1]


def test_rewards_in_a_rollout_are_scaled_and_those_of_episodes_are_raw() -> None:
    agent = agent_in(Fast, normalize_reward=True, n_steps=200)
    rewards: list[Any] = []
    tap(rollouts_of(agent).rollout, "add", lambda *args: rewards.append(args[4].copy()))
    agent.learn(400)
    scale = rollouts_of(agent).rewards
    assert isinstance(scale, RewardNormalizer)
    assert np.stack(rewards)[-1] == pytest.approx(1 / scale.std)
    assert {episode.return_ for episode in agent.loop.episodes} == {50.0}
    agent.close()


def test_the_window_of_episodes_is_the_last_hundred() -> None:
    agent = agent_in(partial(Scripted, [Ending(1, True, False)]), num_envs=1)
    agent.learn(WINDOW + 50)
    assert len(agent.loop.episodes) == WINDOW
    assert min(episode.return_ for episode in agent.loop.episodes) >= 100 * 50
    agent.close()


def test_an_episode_that_ends_in_a_row_that_is_thrown_away_is_not_told() -> None:
    agent = agent_in(partial(Scripted, [Ending(3, True, False)]), num_envs=4)
    agent.learn(10)  # the third step counts for two of the four
    assert [episode.env_index for episode in agent.loop.episodes] == [0, 1]
    agent.close()


def test_two_rollouts_follow_each_other_without_a_gap() -> None:
    agent = agent_in(partial(Scripted, [Ending(100, True, False)]), num_envs=1)
    lessons = lessons_not_learnt(agent)
    agent.learn(18)
    assert torch.cat([lesson.batch.obs[""][:, 1] for lesson in lessons]).tolist() == list(range(18))
    agent.close()
