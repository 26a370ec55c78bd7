"""Agents that go on: in another environment, after a load, in a folder that was used before."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch

import steadyrl as srl
from steadyrl.data.hindsight import HindsightReplay
from steadyrl.training.agent import Agent
from steadyrl.training.off_policy import OffPolicyLoop
from support.goals import Reach
from support.off_policy import agent_of, loop_of
from support.training_envs import Fast

SMALL: dict[str, Any] = {
    "net_arch": (8,),
    "batch_size": 8,
    "buffer_size": 1000,
    "learning_starts": 20,
    "train_freq": 10,
}


def dqn(**options: Any) -> Agent:
    return srl.DQN("CartPole-v1", preset="none", **{**SMALL, **options})


def test_an_earlier_life_makes_no_burst_of_updates(tmp_path: Path) -> None:
    """gradient_steps=-1 counts the steps of this replay, and it is filled with random actions again."""
    first = dqn(gradient_steps=-1)
    first.learn(100)
    again = srl.load(first.save(tmp_path / "dqn"), env="CartPole-v1", **SMALL, gradient_steps=-1)
    assert again.num_timesteps == 100
    again.learn(20)
    assert (again.num_timesteps, again.loop.counters.updates) == (120, 0)
    again.learn(20)
    assert again.loop.counters.updates == 20
    first.set_env("CartPole-v1")
    first.learn(40)
    assert (first.num_timesteps, first.loop.counters.updates) == (140, 20)


def test_a_leftover_of_the_declared_total_is_trained_beside_whole_periods() -> None:
    """13 steps of 8 environments are two vector steps; the second passes step 12 and leaves step 13."""
    agent = agent_of("dqn", Fast, num_envs=8, train_freq=4, gradient_steps=1, learning_starts=0, batch_size=2)
    agent.learn(13)
    assert agent.loop.counters.updates == 2 + 1 + 1
    agent.close()


def test_each_training_keeps_its_replay_in_files_of_its_own(tmp_path: Path) -> None:
    agent = dqn(replay_dir=str(tmp_path / "replay"))
    agent.learn(50)
    agent.set_env("CartPole-v1")
    agent.learn(50)
    agent.close()
    assert sorted(path.name for path in (tmp_path / "replay").iterdir()) == ["replay-1", "replay-2"]


def test_exploration_that_starts_to_fall_anew_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    agent = dqn()
    agent.learn(30)
    assert "Schedules" not in capsys.readouterr().err
    agent.learn(30)
    assert "Schedules now run over 60 steps" in capsys.readouterr().err


class TurnsGradientsOff(Fast):
    """Leaves torch's autograd switched off, as code under `torch.set_grad_enabled` may."""

    def step(self, action: Any) -> Any:
        torch.set_grad_enabled(False)
        return super().step(action)


@pytest.mark.parametrize("algo", ["dqn", "sac", "ppo"])
def test_an_environment_may_leave_autograd_off(algo: str) -> None:
    options: dict[str, Any] = {} if algo == "ppo" else SMALL
    agent = getattr(srl, algo.upper())(TurnsGradientsOff, preset="none", **{**options, "net_arch": (8,)})
    try:
        agent.learn(60) if algo != "ppo" else agent.learn(64, schedule_steps=64)
    finally:
        torch.set_grad_enabled(True)
    assert agent.loop.counters.updates > 0


class Tenfold(gym.Wrapper[Any, Any, Any, Any]):
    """Pays ten times as much, for goals that are asked about too."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, 10.0 * float(reward), terminated, truncated, info

    def compute_reward(self, achieved: Any, desired: Any, info: dict[str, Any]) -> Any:
        return 10.0 * self.env.get_wrapper_attr("compute_reward")(achieved, desired, info)


@pytest.mark.parametrize(("make", "paid"), [(Reach, {-1.0, 0.0}), (lambda: Tenfold(Reach()), {-10.0, 0.0})])
def test_hindsight_asks_the_outermost_wrapper_for_rewards(make: Any, paid: set[float]) -> None:
    agent = srl.SAC(make, preset="none", hindsight="future", **SMALL)
    agent.learn(60)
    assert isinstance(loop_of(agent), OffPolicyLoop)
    assert isinstance(loop_of(agent).replay, HindsightReplay)
    rewards = loop_of(agent).sample(256).rewards
    assert set(rewards.tolist()) <= paid
    assert rewards.min().item() == min(paid)
    assert (rewards == 0).any()  # a substitute goal was reached


def test_hindsight_needs_goals_to_ask_about() -> None:
    with pytest.raises(srl.UserError, match="has no compute_reward"):
        srl.SAC(partial(gym.make, "Pendulum-v1"), preset="none", hindsight="future", **SMALL)
