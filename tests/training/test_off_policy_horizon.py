"""What a time limit is worth to DQN, DDPG, TD3 and SAC: with reward 1 and truncation only, Q is 1 / (1 - gamma)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from steadyrl.data.prioritised import PrioritisedReplay
from steadyrl.training.agent import Agent
from steadyrl.training.off_policy import OffPolicyLoop
from support.envs import ConstantReward
from support.off_policy import PaysForMoving, PaysVectorForMoving, agent_of
from support.training_envs import EndsInstead, Pays, PaysVector

GAMMA = 0.9
HORIZON = 7
ALPHA = 0.2
OBSERVATIONS = np.random.default_rng(0).uniform(-1, 1, (200, 2)).astype(np.float32)
CONTINUOUS: dict[str, dict[str, Any]] = {
    "ddpg": {"tau": 0.05},
    "td3": {"tau": 0.2},
    "sac": {"tau": 0.05, "ent_coef": 0.0},
}
DQN: dict[str, dict[str, Any]] = {
    "plain": {},
    # At 1e-2 Adam's steps of the two streams against each other keep the value 1% off, whoever computes them.
    "double dueling": {"double": True, "dueling": True, "learning_rate": 3e-3},
    "c51": {"head": "c51", "v_min": 0.0, "v_max": 20.0},
    "quantile": {"head": "quantile", "n_quantiles": 8},
}
FAST: dict[str, Any] = {"gamma": GAMMA, "net_arch": (16,), "learning_rate": 1e-2, "batch_size": 32}


class MovingEndsInstead(PaysForMoving):
    """The time limit told as the end of the task."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated or truncated, False, info


def trained(algo: str, env: Any, steps: int = 1200, **options: Any) -> Agent:
    agent = agent_of(algo, env, **{**FAST, **options})
    agent.learn(steps)
    agent.close()
    return agent


def check(agent: Agent, expected: float = 1 / (1 - GAMMA)) -> None:
    values = agent.value(OBSERVATIONS)
    np.testing.assert_allclose(values.mean(), expected, rtol=0.02)
    np.testing.assert_allclose(values, expected, rtol=0.06)


def entropy(agent: Agent) -> float:
    """H = -E log pi in [-1, 1] space, over many samples."""
    policy = agent.policy
    with torch.no_grad():
        params = policy.net.actor(policy.tensors({"": np.tile(OBSERVATIONS, (50, 1))}))
        noise = policy.distribution.draw(agent.seeds.stream("eval", "entropy"), 50 * len(OBSERVATIONS))
        actions = policy.distribution.sample(params, torch.from_numpy(noise))
        return -float(policy.distribution.log_prob(params, actions).mean())


@pytest.mark.parametrize("prioritized", [False, True], ids=["uniform", "prioritised"])
@pytest.mark.parametrize("n_step", [1, 3])
def test_dqn_in_a_native_environment_with_made_up_rows(n_step: int, prioritized: bool) -> None:
    env = PaysVector(AutoresetMode.NEXT_STEP, length=HORIZON)  # whose made-up rows pay 0
    agent = trained("dqn", env, n_step=n_step, prioritized=prioritized)
    assert isinstance(agent.loop, OffPolicyLoop)
    assert isinstance(agent.loop.replay, PrioritisedReplay) == prioritized
    assert agent.loop.replay.n_step == n_step
    assert agent.loop.counters.updates > 1000
    check(agent)


@pytest.mark.parametrize("variant", [name for name in DQN if name != "plain"])
def test_dqn_in_every_form(variant: str) -> None:
    check(trained("dqn", partial(ConstantReward, HORIZON), **DQN[variant]))


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("algo", CONTINUOUS)
def test_continuous_actions_in_a_native_environment_with_made_up_rows(algo: str, n_step: int) -> None:
    env = PaysVectorForMoving(AutoresetMode.NEXT_STEP, length=HORIZON)
    check(trained(algo, env, 1000 if n_step == 1 else 600, n_step=n_step, **CONTINUOUS[algo]))


@pytest.mark.parametrize("n_step", [1, 3])
def test_sac_is_paid_for_the_entropy_of_every_later_step(n_step: int) -> None:
    steps = 1000 if n_step == 1 else 700
    agent = trained("sac", partial(PaysForMoving, HORIZON), steps, tau=0.05, ent_coef=ALPHA, n_step=n_step)
    bonus = GAMMA * ALPHA * entropy(agent) / (1 - GAMMA)
    assert bonus > 0.8  # so the formula without it would fail
    check(agent, 1 / (1 - GAMMA) + bonus)


@pytest.mark.parametrize("n_step", [1, 3])
def test_discrete_sac_is_paid_for_entropy_too(n_step: int) -> None:
    agent = trained("sac", partial(ConstantReward, HORIZON), 1000, tau=0.05, ent_coef=ALPHA, n_step=n_step)
    check(agent, (1 + GAMMA * ALPHA * np.log(2)) / (1 - GAMMA))  # no action is better than another


@pytest.mark.parametrize("algo", ["dqn", "td3", "sac"])
def test_control_the_limit_told_as_the_end_gives_another_value(algo: str) -> None:
    """An episode ends after a step with a chance of 1 / 7 for one who cannot see the time."""
    env = partial(EndsInstead if algo == "dqn" else MovingEndsInstead, HORIZON)
    agent = trained(algo, env, 800, **CONTINUOUS.get(algo, {}))
    # DQN's 1 / 7 of the errors are beyond Huber's threshold: there 1 / 7 = 6 / 7 * (1 + gamma * v - v).
    wrong = (1 - 1 / (HORIZON - 1)) / (1 - GAMMA) if algo == "dqn" else 1 / (1 - GAMMA * (1 - 1 / HORIZON))
    assert wrong < 0.85 / (1 - GAMMA)  # so the tests above would fail
    np.testing.assert_allclose(agent.value(OBSERVATIONS).mean(), wrong, rtol=0.1)


@pytest.mark.parametrize("n_step", [1, 3])
def test_termination_is_worth_the_finite_sum(n_step: int) -> None:
    length = 5
    agent = trained("dqn", partial(Pays, length), n_step=n_step)
    left = length - np.arange(length)
    np.testing.assert_allclose(agent.value(np.eye(length + 1)[:length]), (1 - GAMMA**left) / (1 - GAMMA), rtol=0.05)


def test_episodes_of_one_step_are_worth_as_much() -> None:
    check(trained("dqn", partial(ConstantReward, 1), n_step=3))


@pytest.mark.learning
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("prioritized", [False, True], ids=["uniform", "prioritised"])
@pytest.mark.parametrize("variant", DQN)
def test_dqn_in_every_form_and_environment(
    variant: str, prioritized: bool, n_step: int, mode: AutoresetMode, seed: int
) -> None:
    env = PaysVector(mode, length=HORIZON)
    check(trained("dqn", env, 3000, n_step=n_step, prioritized=prioritized, seed=seed, **DQN[variant]))


@pytest.mark.learning
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("algo", CONTINUOUS)
def test_continuous_actions_in_every_environment(algo: str, n_step: int, mode: AutoresetMode, seed: int) -> None:
    env = PaysVectorForMoving(mode, length=HORIZON)
    check(trained(algo, env, 4000, n_step=n_step, seed=seed, **CONTINUOUS[algo]))


@pytest.mark.learning
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ent_coef", [0.05, 0.5])
@pytest.mark.parametrize("n_step", [1, 3])
def test_sac_at_other_temperatures(n_step: int, ent_coef: float, seed: int) -> None:
    options = {"tau": 0.05, "ent_coef": ent_coef, "n_step": n_step, "seed": seed}
    agent = trained("sac", partial(PaysForMoving, HORIZON), 5000, **options)
    check(agent, (1 + GAMMA * ent_coef * entropy(agent)) / (1 - GAMMA))
