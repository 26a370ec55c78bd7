"""DQN, DDPG, TD3 and SAC solve problems whose answer is plain."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import steadyrl as srl
from support.envs import MatchTarget, Reset, Stepped
from support.off_policy import agent_of

DISCRETE = spaces.Discrete(4, start=-1)
CONTINUOUS = spaces.Box(np.array([-1.0, 0.0], dtype=np.float32), np.array([1.0, 10.0], dtype=np.float32))
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "dqn": ("dqn", {}),
    "dqn-everything": ("dqn", {"double": True, "dueling": True, "prioritized": True, "n_step": 3}),
    "dqn-c51": ("dqn", {"head": "c51", "v_min": -5.0, "v_max": 10.0}),
    "dqn-quantile": ("dqn", {"head": "quantile", "n_quantiles": 10}),
    "ddpg": ("ddpg", {"action_noise_std": 0.3}),
    "td3": ("td3", {"action_noise_std": 0.3}),
    "sac": ("sac", {"ent_coef": 0.01}),
    "sac-gsde": ("sac", {"ent_coef": 0.01, "use_sde": True, "log_std_init": -1.0}),
    "sac-discrete": ("sac", {"ent_coef": 0.05}),
}
FAST: dict[str, Any] = {"net_arch": (32,), "learning_rate": 3e-3, "gamma": 0.9, "tau": 0.05, "batch_size": 64}
IN_SECONDS: dict[str, Any] = {"num_envs": 4, "train_freq": 4, "gradient_steps": 2, "learning_starts": 200}


class Tells(gym.Env[Any, Any]):
    """Says an action of the space, one-hot where it is discrete; the reward is how near to it the answer is."""

    def __init__(self, action_space: gym.Space[Any]) -> None:
        self.action_space = action_space
        box = isinstance(action_space, spaces.Box)
        self.observation_space = action_space if box else spaces.Discrete(4)
        self.range = np.ravel(action_space.high - action_space.low) if isinstance(action_space, spaces.Box) else None
        self.told: Any = None
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.t = 0
        return self._tell(), {}

    def step(self, action: Any) -> Stepped:
        self.t += 1
        if self.range is None:
            reward = float(int(action) + 1 == int(self.told))
        else:
            reward = 1.0 - float((np.abs(np.ravel(action) - np.ravel(self.told)) / self.range).mean())
        return self._tell(), reward, False, self.t >= 20, {}

    def _tell(self) -> Any:
        self.told = self.observation_space.sample()
        return self.told


def actions_of(variant: str) -> gym.Space[Any]:
    return DISCRETE if variant.startswith("dqn") or variant == "sac-discrete" else CONTINUOUS


def target_network(algo: str) -> dict[str, Any]:
    return {"tau": 1.0, "target_update_interval": 100, "exploration_fraction": 0.5} if algo == "dqn" else {}


def scores(variant: str, env: Any, steps: int, **options: Any) -> tuple[float, float]:
    """Mean return before the training, with sampled actions, and after it, with the final agent's own."""
    algo, settings = VARIANTS[variant]
    agent = agent_of(algo, env, **{**FAST, **IN_SECONDS, **settings, **target_network(algo), **options})
    before = srl.evaluate(agent, episodes=50, deterministic=False).mean
    agent.learn(steps)
    after = srl.evaluate(agent, episodes=10).mean
    agent.close()
    return before, after


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_one_right_action_is_found_within_seconds(variant: str) -> None:
    space = actions_of(variant)
    before, after = scores(
        variant, partial(MatchTarget, space, 2 if space is DISCRETE else [0.5, 2.0]), 1600, learning_rate=1e-2
    )
    if space is DISCRETE:
        assert after == 1.0
    else:
        assert before < 0.2
        assert after > 0.7  # whose distance is in raw units, up to 10


@pytest.mark.learning
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_told_is_copied(variant: str, seed: int) -> None:
    space = actions_of(variant)
    options = {"seed": seed, "net_arch": (64, 64), "normalize_obs": space is CONTINUOUS, "learning_rate": 1e-3}
    before, after = scores(variant, partial(Tells, space), 10_000, **options)
    assert before < 20 * 0.85
    assert after > 20 * 0.93
