"""Agents that remember, from the outside: predict with a state, evaluation, saving, settings, and a task of memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import steadyrl as srl
from steadyrl.nn.recurrent import RecurrentActorCritic
from steadyrl.training.agent import Agent
from steadyrl.training.events import Notice
from support.masked import Masked
from support.recurrent import KINDS, Recall

SMALL: dict[str, Any] = {"preset": "none", "vec": "sync", "num_envs": 2, "recurrent_size": 8, "net_arch": (8,)}


def agent_of(algo: type[Agent] = srl.PPO, env: Any = "CartPole-v1", **options: Any) -> Agent:
    own = {"n_steps": 16, "batch_size": 16, "n_epochs": 2} if algo is srl.PPO else {}
    return algo(env, **{**SMALL, "recurrent": "lstm", **own, **options})


@pytest.fixture(scope="module")
def trained() -> Agent:
    agent = agent_of()
    agent.learn(64)
    agent.close()
    return agent


def test_the_state_goes_in_and_out_of_predict(trained: Agent) -> None:
    first, second = np.full(4, 0.1), np.full(4, -0.2)
    _, state = trained.predict(first, deterministic=True)
    assert state.shape == (32,)  # output and cells, of the policy's memory and of the values'
    _, after = trained.predict(second, state, deterministic=True)
    _, fresh = trained.predict(second, deterministic=True)
    assert not np.allclose(after, fresh)
    _, again = trained.predict(second, state, episode_start=True, deterministic=True)
    np.testing.assert_array_equal(again, fresh)
    _, kept = trained.predict(second, state, episode_start=False, deterministic=True)
    np.testing.assert_array_equal(kept, after)


def test_a_batch_remembers_row_by_row(trained: Agent) -> None:
    obs = np.array([[0.1] * 4, [0.3] * 4, [-0.2] * 4])
    actions, states = trained.predict(obs, deterministic=True)
    assert actions.shape == (3,)
    _, after = trained.predict(obs, states, np.array([False, True, False]), True)
    for row, start in enumerate([False, True, False]):
        _, alone = trained.predict(obs[row], states[row], start, True)
        np.testing.assert_allclose(after[row], alone, atol=1e-6)


def test_values_follow_the_state(trained: Agent) -> None:
    obs = np.full(4, 0.1)
    _, state = trained.predict(obs, deterministic=True)
    fresh = trained.value(obs)
    assert fresh.shape == ()
    assert trained.value(obs, state) != fresh
    assert trained.value(obs, state, episode_start=True) == fresh


@pytest.mark.parametrize("state", [np.zeros(31), np.zeros((1, 32)), np.full(32, np.nan), "memory"])
def test_a_state_of_another_policy_is_refused(trained: Agent, state: Any) -> None:
    with pytest.raises(srl.UserError, match=r"not finite numbers of shape \(32,\)"):
        trained.predict(np.zeros(4), state)


def test_one_truth_value_for_each_observation(trained: Agent) -> None:
    with pytest.raises(srl.UserError, match=r"episode_start has shape \(2,\), but there are 3 observations"):
        trained.predict(np.zeros((3, 4)), None, [True, False])


@pytest.mark.parametrize("given", ["x", ["a", "b", "c"], [0.5, 1.0, 0.0], [np.nan, 0.0, 0.0], {}, object()])
def test_what_is_no_truth_value_is_refused(trained: Agent, given: Any) -> None:
    with pytest.raises(srl.UserError, match=r"episode_start is .*, not truth values\."):
        trained.predict(np.zeros((3, 4)), None, given)


@pytest.mark.parametrize(("kind", "shared"), KINDS)
def test_a_saved_agent_predicts_and_is_evaluated_the_same(kind: str, shared: bool, tmp_path: Path) -> None:
    agent = agent_of(recurrent=kind, recurrent_shared=shared)
    agent.learn(64)
    again = srl.load(agent.save(tmp_path / "agent"), env="CartPole-v1")
    assert again.policy.sha256() == agent.policy.sha256()
    obs, state, other = np.full(4, 0.1), None, None
    for _ in range(4):
        (_, state), (_, other) = agent.predict(obs, state, None, True), again.predict(obs, other, None, True)
        np.testing.assert_array_equal(state, other)
    np.testing.assert_array_equal(srl.evaluate(agent, 3).returns, srl.evaluate(again, 3).returns)
    agent.close()


class Told(Recall):
    """Tells all actions of an episode in its return, as the digits of a number."""

    def __init__(self) -> None:
        super().__init__(wait=9)

    def step(self, action: Any) -> Any:
        obs, _, over, cut, info = super().step(action)
        return obs, float(int(action) * 2**self.t), over, cut, info


def test_evaluation_carries_the_state_and_starts_each_episode_without() -> None:
    agent = agent_of(env=Told, ortho_init=False, seed=3)
    net = agent.policy.net
    assert isinstance(net, RecurrentActorCritic)
    with torch.no_grad():  # a strong memory, which decides alone
        for parameter in net.policy_memory.parameters():
            parameter.mul_(20.0)
        for name, parameter in net.policy_head.named_parameters():
            parameter.mul_(float(not name.endswith("bias")))

    def played(state_of: Callable[[Any, bool], Any]) -> list[float]:
        returns, state = [], None
        for seed in agent.seeds.eval_episode_seeds(12):
            env, total, over = Told(), 0.0, False
            obs, _ = env.reset(seed=seed)
            while not over:
                action, state = agent.predict(obs, state_of(state, env.t == 0), deterministic=True)
                obs, reward, over, _, _ = env.step(action)
                total += reward
            returns.append(total)
        return returns

    found = srl.evaluate(agent, 12, env=Told()).returns.tolist()  # one environment, episode after episode
    assert srl.evaluate(agent, 12).returns.tolist() == found  # ten side by side
    assert found == played(lambda state, start: None if start else state)
    assert found != played(lambda state, start: None)
    assert found != played(lambda state, start: state)
    agent.close()


def test_in_a_vector_of_environments_too() -> None:
    agent = agent_of(env=Told)
    agent.learn(64)
    vector = gym.vector.SyncVectorEnv([Told] * 3)
    found = srl.evaluate(agent, 9, env=vector)
    assert found.lengths.tolist() == [10] * 9
    agent.close()


@pytest.mark.parametrize("algo", [srl.PPO, srl.A2C])
def test_masks_and_memory_together(algo: type[Agent]) -> None:
    agent = agent_of(algo, partial(Masked, (3, 2)), recurrent="gru")
    agent.learn(100)
    action, state = agent.predict(np.zeros(2), action_masks=[0, 1, 0, 0, 1])
    np.testing.assert_array_equal(action, [1, 1])
    assert state.shape == (16,)
    assert srl.evaluate(agent, 3).episodes == 3
    agent.close()


def test_what_runs_through_torch_is_said_once() -> None:
    pytest.importorskip("steadyrl.kernels._native")
    told: list[Any] = []
    agent = agent_of(kernels="native")
    agent.learn(128, callback=told.append)
    said = [event.message for event in told if isinstance(event, Notice)]
    assert said == ["PyTorch, not the native kernels, runs the recurrent networks, which they lack."]
    agent.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_envs": 4, "n_steps": 16, "batch_size": 32}, None),
        ({"num_envs": 4, "n_steps": 16, "batch_size": 16}, None),
        ({"num_envs": 4, "n_steps": 16, "batch_size": 10}, "a minibatch has 1 of 16 steps (batch_size is 10)"),
        ({"num_envs": 5, "n_steps": 16, "batch_size": 32}, "has 2 of 16 steps, and the last one of each epoch 1"),
    ],
)
def test_minibatches_that_are_not_what_was_asked_for_are_said(
    options: dict[str, Any], said: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    agent_of(**options)
    told = capsys.readouterr().err
    assert (said in told) if said else ("sequences" not in told)


def test_a_loaded_policy_without_memory_hands_a_state_back(tmp_path: Path) -> None:
    agent = agent_of(recurrent="none")
    assert agent.predict(np.zeros(4), "anything", True)[1] == "anything"
    agent.close()


@pytest.mark.learning
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_cue_is_remembered(kind: str) -> None:
    own: dict[str, Any] = {
        "n_steps": 64,
        "batch_size": 128,
        "n_epochs": 8,
        "num_envs": 8,
        "learning_rate": 3e-3,
        "recurrent_size": 16,
    }
    agent = agent_of(env=Recall, recurrent=kind, **own)
    agent.learn(20_000)
    assert srl.evaluate(agent, 50).mean == 1.0
    agent.close()
