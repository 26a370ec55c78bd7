"""What a time limit is worth: with reward 1 and truncation only, V is 1 / (1 - gamma)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import steadyrl as srl
from steadyrl.training.agent import Agent
from support.envs import ConstantReward
from support.training_envs import EndsInstead, Pays, PaysFive, PaysVector

GAMMA = 0.9
HORIZON = 7
ALGORITHMS: dict[str, tuple[Callable[..., Agent], dict[str, Any]]] = {
    "ppo": (srl.PPO, {"n_steps": 64, "batch_size": 64, "learning_rate": 3e-3}),
    "a2c": (srl.A2C, {"n_steps": 8, "learning_rate": 2e-2, "max_grad_norm": 0.0, "use_rms_prop": False}),
}
OBSERVATIONS = np.random.default_rng(0).uniform(-1, 1, (50, 2))


def trained(algo: str, env: Any, steps: int = 4000, **options: Any) -> Agent:
    make, settings = ALGORITHMS[algo]
    agent = make(env, gamma=GAMMA, preset="none", net_arch=(16,), **{**settings, **options})
    agent.learn(steps)
    agent.close()
    return agent


def ends_instead(horizon: int) -> float:
    """Mean V over an episode if its time limit were the end of the task and the time could not be seen."""
    return float(np.mean([(1 - GAMMA**left) / (1 - GAMMA) for left in range(1, horizon + 1)]))


@pytest.mark.parametrize("vec", ["sync", "async"])
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_truncation_only_is_worth_the_infinite_sum(algo: str, vec: str) -> None:
    agent = trained(algo, partial(ConstantReward, HORIZON), num_envs=2, vec=vec)
    assert agent.loop.venv.spec.backend == vec
    np.testing.assert_allclose(agent.value(OBSERVATIONS).mean(), 1 / (1 - GAMMA), rtol=0.02)
    np.testing.assert_allclose(agent.value(OBSERVATIONS), 1 / (1 - GAMMA), rtol=0.05)


@pytest.mark.parametrize(
    ("algo", "mode"),
    [
        ("ppo", AutoresetMode.NEXT_STEP),
        ("ppo", AutoresetMode.SAME_STEP),
        ("ppo", AutoresetMode.DISABLED),
        ("a2c", AutoresetMode.NEXT_STEP),
    ],
)
def test_the_same_in_a_hand_written_vector_environment(algo: str, mode: AutoresetMode) -> None:
    agent = trained(algo, PaysVector(mode, length=HORIZON))
    np.testing.assert_allclose(agent.value(OBSERVATIONS).mean(), 1 / (1 - GAMMA), rtol=0.02)


def test_episodes_of_one_step_are_worth_as_much() -> None:
    # Nothing reaches further than one step in an update, so it takes more of them: the error shrinks by gamma in each.
    agent = trained("ppo", partial(ConstantReward, 1), num_envs=2, n_steps=32)
    np.testing.assert_allclose(agent.value(OBSERVATIONS).mean(), 1 / (1 - GAMMA), rtol=0.02)


def test_control_the_limit_told_as_the_end_gives_the_other_value() -> None:
    agent = trained("ppo", partial(EndsInstead, HORIZON), num_envs=2)
    wrong = ends_instead(HORIZON)
    assert wrong < 0.5 / (1 - GAMMA)  # so the tests above would fail by far
    np.testing.assert_allclose(agent.value(OBSERVATIONS).mean(), wrong, rtol=0.1)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_termination_is_worth_the_finite_sum(algo: str) -> None:
    length = 5
    agent = trained(algo, partial(Pays, length), num_envs=2)
    left = length - np.arange(length)
    np.testing.assert_allclose(agent.value(np.eye(length + 1)[:length]), (1 - GAMMA**left) / (1 - GAMMA), rtol=0.03)


def test_values_are_told_in_the_scale_of_raw_rewards() -> None:
    # The early rewards are scaled by an unsettled statistic, so the value approaches from there.
    agent = trained("ppo", partial(PaysFive, HORIZON), 8000, num_envs=2, normalize_reward=True)
    assert agent.policy.value_scale > 2.0
    np.testing.assert_allclose(agent.value(OBSERVATIONS).mean(), 5 / (1 - GAMMA), rtol=0.05)


def test_the_value_scale_is_saved_with_the_policy(tmp_path: Any) -> None:
    agent = trained("ppo", partial(PaysFive, HORIZON), 500, num_envs=2, normalize_reward=True)
    loaded = srl.load(agent.save(tmp_path / "five"))
    np.testing.assert_array_equal(loaded.value(OBSERVATIONS), agent.value(OBSERVATIONS))


def test_made_up_rows_of_a_native_environment_are_not_counted() -> None:
    env = PaysVector(AutoresetMode.NEXT_STEP, num_envs=3, length=2)
    agent = trained("a2c", env, 999)
    assert agent.num_timesteps == 999
    assert isinstance(env, gym.vector.VectorEnv)
    assert 999 <= env.real_steps < 999 + 3  # at most one vector step goes beyond
