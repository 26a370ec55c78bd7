"""Agents of every off-policy kind: predicting, saving, loading, going on, evaluating."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steadyrl as srl
from steadyrl.nn.actor_critics import ActorAndCritics
from support.off_policy import agent_of, loop_of, parameters
from support.off_policy_agents import BOX, KINDS, check_prediction, kept
from support.training_envs import Keeper


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_survives_its_file_bit_for_bit(kind: str, tmp_path: Path) -> None:
    algo, action, options = KINDS[kind]
    agent = kept(algo, BOX, action, **options)
    check_prediction(agent, BOX, action)
    path = agent.save(tmp_path / kind)
    loaded = srl.load(path)
    assert type(loaded) is type(agent)
    assert loaded.config == agent.config
    assert loaded.num_timesteps == 60
    assert loaded.policy.sha256() == agent.policy.sha256()
    obs = np.random.default_rng(0).uniform(-1, 1, (50, 3)).astype(np.float32)
    np.testing.assert_array_equal(loaded.value(obs), agent.value(obs))
    np.testing.assert_array_equal(loaded.predict(obs, deterministic=True)[0], agent.predict(obs, deterministic=True)[0])
    assert loaded.save(tmp_path / "again").read_bytes() == path.read_bytes()
    with pytest.raises(srl.UserError, match="loaded without an environment, so it cannot learn"):
        loaded.learn(10)
    env = partial(Keeper, BOX, action)
    result, other = srl.evaluate(agent, episodes=3, env=env), srl.evaluate(loaded, episodes=3, env=env)
    assert result.returns.tolist() == other.returns.tolist() == [5.0] * 3
    assert srl.evaluate(agent, episodes=2, env=env, deterministic=False).lengths.tolist() == [5, 5]


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_policy_learns_on_with_targets_of_its_own(kind: str, tmp_path: Path) -> None:
    algo, action, options = KINDS[kind]
    path = kept(algo, BOX, action, **options).save(tmp_path / kind)
    agent = srl.load(path, env=partial(Keeper, BOX, action))
    algorithm: Any = loop_of(agent).algorithm
    if algo == "dqn":
        pairs = [(algorithm._target.module, agent.policy.net)]
    else:
        pairs = [(algorithm._target_q.module, algorithm._q.module)]
    for target, online in pairs:
        np.testing.assert_array_equal(parameters(target), parameters(online))
    before = agent.policy.sha256()
    agent.learn(40)
    agent.close()
    assert agent.num_timesteps == 100
    assert agent.policy.sha256() != before


@pytest.mark.parametrize(
    ("algo", "options", "critics"),
    [("ddpg", {}, 1), ("td3", {}, 2), ("td3", {"n_critics": 4}, 4), ("sac", {}, 2), ("sac", {"n_critics": 3}, 3)],
    ids=str,
)
def test_an_agent_has_as_many_critics_as_it_was_asked_for(algo: str, options: dict[str, Any], critics: int) -> None:
    agent = agent_of(algo, "Pendulum-v1", net_arch={"pi": (4,), "qf": (5, 6)}, **options)
    net = agent.policy.net
    assert isinstance(net, ActorAndCritics)
    assert len(net.q.critics) == critics
    shapes = [tuple(p.shape) for p in net.q.critics[0].parameters()]
    assert shapes == [(5, 4), (5,), (6, 5), (6,), (1, 6), (1,)]
    assert next(net.pi.parameters()).shape == (4, 3)
