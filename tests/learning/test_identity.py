"""PPO and A2C solve problems whose answer is plain, for every kind of action."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import steadyrl as srl
from steadyrl.training.agent import Agent
from support.envs import MatchTarget, Reset, Stepped

ACTIONS: dict[str, gym.Space[Any]] = {
    "discrete": spaces.Discrete(4, start=-1),
    "multi-discrete": spaces.MultiDiscrete([3, 4]),
    "multi-binary": spaces.MultiBinary(4),
    "continuous": spaces.Box(np.array([-1.0, 0.0], dtype=np.float32), np.array([1.0, 10.0], dtype=np.float32)),
}
TARGETS: dict[str, Any] = {
    "discrete": 2, "multi-discrete": [2, 1], "multi-binary": [1, 0, 0, 1], "continuous": [0.5, 2.0]
}  # fmt: skip
ALGORITHMS: dict[str, tuple[Callable[..., Agent], dict[str, Any]]] = {
    "ppo": (srl.PPO, {"n_steps": 32, "batch_size": 64, "n_epochs": 10, "learning_rate": 3e-3}),
    "a2c": (srl.A2C, {"n_steps": 8, "learning_rate": 7e-3}),
}
COMMON: dict[str, Any] = {"preset": "none", "num_envs": 8, "net_arch": (32,), "gamma": 0.9}


class Copy(gym.Env[Any, Any]):
    """Says an action of the space; the reward is the part of it that is copied, 1 minus the distance in a Box."""

    def __init__(self, action_space: gym.Space[Any]) -> None:
        self.action_space = action_space
        self.observation_space = action_space
        self.range = np.ravel(action_space.high - action_space.low) if isinstance(action_space, spaces.Box) else None
        self.told: Any = None
        self.t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        super().reset(seed=seed)
        if seed is not None:
            self.action_space.seed(seed)
        self.t = 0
        return self._tell(), {}

    def step(self, action: Any) -> Stepped:
        self.t += 1
        distance = np.abs(np.ravel(action).astype(np.float64) - np.ravel(self.told))
        distance = (distance > 0).astype(np.float64) if self.range is None else distance / self.range
        return self._tell(), 1.0 - float(distance.mean()), False, self.t >= 20, {}

    def _tell(self) -> Any:
        self.told = self.action_space.sample()
        return self.told


def scores(algo: str, env: Any, steps: int, **options: Any) -> tuple[float, float]:
    """Mean return before the training, with sampled actions, and after it."""
    make, settings = ALGORITHMS[algo]
    agent = make(env, **{**COMMON, **settings, **options})
    before = srl.evaluate(agent, episodes=50, deterministic=False)
    agent.learn(steps)
    after = srl.evaluate(agent, episodes=10)
    agent.close()
    return before.mean, after.mean


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_the_one_right_action_is_found_within_seconds(algo: str, kind: str) -> None:
    options = {"log_std_init": -1.0, "learning_rate": 1e-2} if kind == "continuous" else {}
    before, after = scores(algo, partial(MatchTarget, ACTIONS[kind], TARGETS[kind]), 6000, **options)
    assert before < 0.6
    assert after > (0.7 if kind == "continuous" else 0.95)  # whose distance is in raw units, up to 10


VARIANTS: dict[str, dict[str, Any]] = {
    **{kind: {} for kind in ACTIONS},
    "continuous-tanh": {"squash_output": True},
    "continuous-gsde": {"use_sde": True, "log_std_init": -2.0},
}


@pytest.mark.learning
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_what_is_told_is_copied(algo: str, variant: str, seed: int) -> None:
    kind = variant.removesuffix("-tanh").removesuffix("-gsde")
    # Without an entropy bonus a policy may settle on one action before it has seen what another is for.
    apt = {"normalize_obs": True} if kind == "continuous" else {"ent_coef": 0.01}
    settings = {"net_arch": (64, 64), "seed": seed, "learning_rate": 1e-3, **apt, **VARIANTS[variant]}
    before, after = scores(algo, partial(Copy, ACTIONS[kind]), 60_000 if algo == "ppo" else 150_000, **settings)
    assert before < 20 * 0.75
    assert after > 20 * 0.9
