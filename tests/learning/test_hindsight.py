"""Hindsight makes a sparse goal environment learnable: with the same steps SAC succeeds with it and fails without."""

from __future__ import annotations

import numpy as np
import pytest

import steadyrl as srl
from support.goals import Reach

EPISODES = 100


def success_rate(hindsight: str, seed: int) -> float:
    """Share of new episodes that end at the goal, after 4,000 steps."""
    agent = srl.SAC(
        Reach,
        preset="none",
        seed=seed,
        hindsight=hindsight,
        learning_starts=200,
        net_arch=(64, 64),
        gamma=0.95,
        learning_rate=1e-3,
        buffer_size=20_000,
        batch_size=128,
    )
    agent.learn(4_000)
    agent.close()
    env, reached = Reach(), []
    for episode in range(EPISODES):
        obs, _ = env.reset(seed=10_000 + episode)
        done = False
        while not done:
            obs, _, _, done, info = env.step(agent.predict(obs, deterministic=True)[0])
        reached.append(info["is_success"])
    return float(np.mean(reached))


@pytest.mark.learning
@pytest.mark.parametrize("seed", range(3))
def test_hindsight_succeeds_where_sac_alone_does_not(seed: int) -> None:
    assert success_rate("future", seed) >= 0.9
    assert success_rate("none", seed) <= 0.5
