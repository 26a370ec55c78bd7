"""The first minibatch of an update has ratio 1: what the rollout keeps is what the policy saw and did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces as gs

from steadyrl.algorithms import PPO
from steadyrl.configs import PPOConfig
from steadyrl.data.rollout import RolloutBatch
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.vector import make_vec
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Stream
from steadyrl.training.on_policy import OnPolicyLoop
from steadyrl.training.threads import computing_threads
from support.envs import SpaceProbe
from support.kernels import needs_native
from support.policies import ACTIONS, TREE, make_policy, seeds

# 1e-6 is 8 times float32's own step at 1, and a log-probability moves by z / std for each step of the mean: the bound
# holds where observations, standard deviations and means are of the size that training starts with, as here.
RAW: dict[str, gs.Space[Any]] = {"vector": gs.Box(-2.0, 2.0, (3,), np.float64), "tree": TREE}
WIDE: dict[str, gs.Space[Any]] = {"vector": gs.Box(-3e3, 1e3, (3,), np.float64), "tree": TREE}
STEPS, NUM_ENVS = 16, 3
TOLERANCE = 1e-6
SDE_TOLERANCE = 3e-6  # its log-densities reach 8 to 16 here, where float32's step is 9.5e-7


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As an agent does; threads wait for each other in small softmaxes, where other processes keep the cores busy."""
    with computing_threads(1, native=False):
        yield


class Recorder:
    """Hands rollouts on to PPO and keeps them."""

    def __init__(self, algorithm: PPO) -> None:
        self.algorithm = algorithm
        self.policy = algorithm.policy
        self.exploration = algorithm.exploration
        self.guard = algorithm.guard
        self.batches: list[RolloutBatch] = []

    def learn(self, batch: Any, progress: float) -> dict[str, Any]:
        self.batches.append(batch)
        return self.algorithm.learn(batch, progress)

    def state_dict(self) -> dict[str, Any]:
        return self.algorithm.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.algorithm.load_state_dict(state)


def loop_of(
    config: PPOConfig, obs: gs.Space[Any], action: gs.Space[Any], policy: Policy
) -> tuple[OnPolicyLoop, Recorder]:
    def make() -> gym.Env[Any, Any]:
        return SpaceProbe(obs, action, horizon=5)

    recorder = Recorder(PPO(config, policy, seeds()))
    venv = make_vec(make_env_factory(make, env_kwargs={}, max_episode_steps=None), NUM_ENVS, vec="sync")
    return OnPolicyLoop(config, recorder, venv, seeds().env_seeds(NUM_ENVS)), recorder


def update(loop: OnPolicyLoop) -> dict[str, Any]:
    while not loop.rollout.full:
        loop.step(10**9, 10**9)
    return loop.learn(10**9)


@pytest.mark.parametrize("native", [pytest.param(True, marks=needs_native), False], ids=["native", "torch"])
@pytest.mark.parametrize("normalise", [False, True], ids=["raw", "normalised"])
@pytest.mark.parametrize("obs", RAW)
@pytest.mark.parametrize("name", ACTIONS)
def test_ratio_is_1_in_the_first_minibatch(name: str, obs: str, normalise: bool, native: bool) -> None:
    action, options = ACTIONS[name]
    space = (WIDE if normalise else RAW)[obs]
    tolerance = SDE_TOLERANCE if options.get("use_sde") else TOLERANCE
    config = PPOConfig(
        num_envs=NUM_ENVS,
        n_steps=STEPS,
        batch_size=STEPS * NUM_ENVS,
        n_epochs=1,
        learning_rate=1e-3,
        clip_range=tolerance,  # so that the clip fraction counts every ratio further from 1
        normalize_obs=normalise,
        sde_sample_freq=4,
    )
    policy = make_policy(space, action, net_arch=(16, 4), normalize_obs=normalise, native=native, **options)
    policy.initialise(Stream(0, "weights"), ortho=True)
    loop, recorder = loop_of(config, space, action, policy)
    for _ in range(3):  # weights and normaliser move in between
        before = policy.sha256()
        metrics = update(loop)
        assert float(metrics["train/clip_fraction"]) == 0.0
        assert abs(float(metrics["train/approx_kl"])) < 1e-7
        assert policy.sha256() != before
    loop.venv.close()
    # The ratio is one of the things that move: after an update the same transitions have another.
    batch = recorder.batches[-1]
    with torch.no_grad():
        params, _ = policy.net(batch.obs)
        ratio = (policy.distribution.log_prob(params, batch.actions) - batch.log_probs).exp()
    assert float((ratio - 1).abs().max()) > 1e-4


def test_small_minibatches_have_ratio_1_while_the_weights_stand_still() -> None:
    for name, (action, options) in ACTIONS.items():
        config = PPOConfig(
            num_envs=NUM_ENVS, n_steps=STEPS, batch_size=7, n_epochs=2, learning_rate=1e-30, clip_range=1e-5
        )
        policy = make_policy(WIDE["vector"], action, normalize_obs=True, **options)
        loop, _ = loop_of(config, WIDE["vector"], action, policy)
        assert float(update(loop)["train/clip_fraction"]) == 0.0, name
        loop.venv.close()


def test_the_rollout_keeps_what_the_policy_saw() -> None:
    """Normalised once, with the statistics of that moment; actions as sampled, not as clipped for the environment."""
    action, _ = ACTIONS["gaussian"]
    config = PPOConfig(num_envs=NUM_ENVS, n_steps=STEPS, batch_size=8, n_epochs=1, normalize_obs=True)
    policy = make_policy(WIDE["vector"], action, normalize_obs=True)
    loop, recorder = loop_of(config, WIDE["vector"], action, policy)
    seen: list[torch.Tensor] = []
    handle = policy.net.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0][""].clone()))
    while not loop.rollout.full:
        loop.step(10**9, 10**9)
    handle.remove()
    loop.learn(10**9)
    loop.venv.close()
    batch = recorder.batches[0]
    assert torch.equal(batch.obs[""], torch.cat(seen[:STEPS]))
    assert float(batch.obs[""].abs().max()) <= 10.0
    assert float(batch.actions.abs().max()) > 1.0
