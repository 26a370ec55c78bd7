"""Hindsight makes a sparse goal environment learnable: with the same steps SAC succeeds with it and fails without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import steadyrl as srl
from steadyrl.envs.make import make_env_factory
from support.goals import Reach

EPISODES = 100
REACH: dict[str, Any] = {
    "preset": "none",
    "learning_starts": 200,
    "net_arch": (64, 64),
    "gamma": 0.95,
    "learning_rate": 1e-3,
    "buffer_size": 20_000,
    "batch_size": 128,
}


def success_rate(source: Any, hindsight: str, seed: int, steps: int = 4_000, **options: Any) -> float:
    """Share of new episodes that end at the goal, after so many steps."""
    agent = srl.SAC(source, seed=seed, hindsight=hindsight, **options)
    agent.learn(steps)
    agent.close()
    env, reached = make_env_factory(source)(), []
    for episode in range(EPISODES):
        obs, _ = env.reset(seed=10_000 + episode)
        done = False
        while not done:
            obs, _, _, done, info = env.step(agent.predict(obs, deterministic=True)[0])
        reached.append(info["is_success"])
    env.close()
    return float(np.mean(reached))


@pytest.mark.learning
@pytest.mark.parametrize("seed", range(3))
def test_hindsight_succeeds_where_sac_alone_does_not(seed: int) -> None:
    assert success_rate(Reach, "future", seed, **REACH) >= 0.9
    assert success_rate(Reach, "none", seed, **REACH) <= 0.5


@pytest.mark.learning
@pytest.mark.parametrize("seed", range(3))
def test_a_robots_hand_reaches_its_goals_with_the_presets_settings(seed: int) -> None:
    pytest.importorskip("gymnasium_robotics", reason="gymnasium-robotics is not installed")
    # SAC alone learns this one too, only later: random actions touch one goal in nine.
    assert success_rate("gymnasium_robotics:FetchReach-v4", "future", seed, steps=20_000) >= 0.9
