"""Agents of every off-policy kind in environments that keep what they are sent."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from steadyrl.training.agent import Agent
from support.off_policy import agent_of
from support.training_envs import Keeper

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
UNEVEN = spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 100.0]), dtype=np.float64)
KINDS: dict[str, tuple[str, gym.Space[Any], dict[str, Any]]] = {
    "dqn": ("dqn", spaces.Discrete(3, start=-1), {}),
    "dqn-dueling-c51": ("dqn", spaces.Discrete(3), {"dueling": True, "head": "c51"}),
    "dqn-quantile": ("dqn", spaces.Discrete(4, start=7), {"head": "quantile", "normalize_obs": True}),
    "ddpg": ("ddpg", UNEVEN, {}),
    "td3": ("td3", spaces.Box(-2.0, 0.0, (1,), np.float32), {"normalize_obs": True}),
    "sac": ("sac", UNEVEN, {"n_critics": 3}),
    "sac-gsde": ("sac", spaces.Box(-1.0, 1.0, (2, 2), np.float32), {"use_sde": True}),
    "sac-discrete": ("sac", spaces.Discrete(3, start=-1), {}),
}


def kept(algo: str, observation: gym.Space[Any], action: gym.Space[Any], steps: int = 60, **options: Any) -> Agent:
    """Trains in two environments that insist on their own spaces and keep what they were sent."""
    Keeper.made.clear()
    agent = agent_of(algo, partial(Keeper, observation, action), **{"num_envs": 2, "train_freq": 4, **options})
    agent.learn(steps)
    agent.close()
    assert all(bool(torch.isfinite(tensor).all()) for tensor in agent.policy.state_dict().values())
    return agent


def sent() -> list[Any]:
    """Actions that each of the environments got, [steps, ...]."""
    return [np.stack(env.actions) for env in Keeper.made if env.actions]


def check_prediction(agent: Agent, observation: gym.Space[Any], action: gym.Space[Any]) -> None:
    observations = [observation.sample() for _ in range(3)]
    stacked = np.stack(observations)
    for deterministic in (False, True):
        single, state = agent.predict(observations[0], deterministic=deterministic)
        assert state is None
        assert action.contains(single), f"{single!r} is not in {action}"
        batch, _ = agent.predict(stacked, deterministic=deterministic)
        assert batch.shape == (3, *(action.shape or ()))
        assert batch.dtype == action.dtype
        assert all(action.contains(row) for row in batch)
    np.testing.assert_allclose(
        agent.predict(stacked, deterministic=True)[0][0],
        agent.predict(observations[0], deterministic=True)[0],
        rtol=1e-4,
    )
    assert agent.value(observations[0]).shape == ()
    assert agent.value(stacked).shape == (3,)
