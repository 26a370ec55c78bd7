"""The on-policy loop with a policy that remembers: values from the right state, ratios of 1, exact rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces as gs
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from steadyrl.algorithms import make_on_policy
from steadyrl.configs import A2CConfig, OnPolicyConfig, PPOConfig
from steadyrl.data.sequences import SequenceBatch
from steadyrl.envs.types import Step
from steadyrl.envs.vector import VectorAdapter, make_vec
from steadyrl.nn.policy import Policy
from steadyrl.nn.recurrent import RecurrentActorCritic
from steadyrl.spaces import ObsTree
from steadyrl.training.on_policy import OnPolicyLoop
from steadyrl.training.threads import computing_threads
from support.envs import ConstantReward, Ending, Scripted, SpaceProbe
from support.policies import ACTIONS, TREE, make_policy, seeds
from support.recurrent import KINDS, options

STEPS, NUM_ENVS = 12, 3


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As an agent does."""
    with computing_threads(1, native=False):
        yield


class Watched:
    """A vector environment that keeps what it was told and what it told."""

    def __init__(self, venv: VectorAdapter) -> None:
        self.venv = venv
        self.obs: list[ObsTree] = []
        self.steps: list[Step] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.venv, name)

    def reset(self, seeds: list[int]) -> ObsTree:
        self.obs.append(self.venv.reset(seeds))
        return self.obs[-1]

    def step(self, actions: Any) -> Step:
        self.steps.append(self.venv.step(actions))
        self.obs.append(self.steps[-1].obs)
        return self.steps[-1]


def loop_of(policy: Policy, source: Any, algo: str = "ppo", **options: Any) -> tuple[OnPolicyLoop, Any]:
    """The loop, and its watched environments."""
    given: dict[str, Any] = {"num_envs": NUM_ENVS, "n_steps": STEPS, **options}
    config: OnPolicyConfig
    if algo == "ppo":
        config = PPOConfig(**{"batch_size": STEPS * NUM_ENVS, "n_epochs": 1, **given})
    else:
        config = A2CConfig(**given)
    vector = isinstance(source, gym.vector.VectorEnv)
    watched: Any = Watched(make_vec(source) if vector else make_vec(source, NUM_ENVS, vec="sync"))
    return OnPolicyLoop(config, make_on_policy(config, policy, seeds()), watched, seeds().env_seeds(NUM_ENVS)), watched


def fill(loop: OnPolicyLoop) -> None:
    while not loop.rollout.full:
        loop.step(10**9, 10**9)


SCRIPT = [Ending(3, False, True), Ending(2, True, False), Ending(4, True, True), Ending(1, False, True)]


@pytest.mark.parametrize(("kind", "shared"), KINDS)
def test_values_come_from_what_was_remembered_at_the_time(kind: str, shared: bool) -> None:
    """A hand-written loop over the same observations: that of a cut episode's end from the state before the reset."""
    policy = make_policy(gs.Box(-np.inf, np.inf, (4,), np.float64), gs.Discrete(3), **options(kind, shared))
    net = policy.net
    assert isinstance(net, RecurrentActorCritic)
    loop, venv = loop_of(policy, lambda: Scripted(SCRIPT))
    state = torch.zeros(NUM_ENVS, policy.state_size)
    starts, never = torch.ones(NUM_ENVS, dtype=torch.bool), torch.zeros(NUM_ENVS, dtype=torch.bool)
    for _ in range(2):  # the second rollout begins in the middle of episodes
        fill(loop)
        values, finals = loop.rollout.values.clone(), loop.rollout.final_values.clone()
        last = loop._recall.last_values(venv.obs[-1])
        with torch.no_grad():
            for t, step in enumerate(venv.steps[-STEPS:]):
                _, expected, state = net.step(policy.tensors(venv.obs[-STEPS - 1 + t]), state, starts)
                _, final, _ = net.step(policy.tensors(step.final_obs), state, never)
                np.testing.assert_allclose(values[t], expected, atol=1e-6)
                cut = torch.from_numpy(step.truncated & ~step.terminated)
                np.testing.assert_allclose(finals[t], torch.where(cut, final, 0.0), atol=1e-6)
                starts = torch.from_numpy(step.terminated | step.truncated)
            expected = net.step(policy.tensors(venv.obs[-1]), state, starts)[1]
        np.testing.assert_allclose(last, expected, atol=1e-6)
        assert bool((finals != 0).any())
        loop.rollout.clear()
    venv.close()


@pytest.mark.parametrize(("kind", "shared"), KINDS)
@pytest.mark.parametrize(
    ("name", "normalise"),
    [("categorical", False), ("multi-categorical", True), ("gaussian", True), ("tanh", False), ("gsde", True)],
)
def test_ratio_is_1_in_the_first_minibatch(kind: str, shared: bool, name: str, normalise: bool) -> None:
    action, own = ACTIONS[name]
    space = TREE if normalise else gs.Box(-2.0, 2.0, (3,), np.float64)
    policy = make_policy(space, action, normalize_obs=normalise, **{**own, **options(kind, shared)})
    loop, venv = loop_of(
        policy,
        lambda: SpaceProbe(space, action, horizon=5),
        learning_rate=1e-3,
        clip_range=1e-5,  # so that the clip fraction counts every ratio further from 1
        normalize_obs=normalise,
        sde_sample_freq=4,
    )
    for _ in range(3):
        fill(loop)
        before = policy.sha256()
        metrics = loop.learn(10**9)
        assert float(metrics["train/clip_fraction"]) == 0.0
        assert abs(float(metrics["train/approx_kl"])) < 1e-7
        assert policy.sha256() != before
    venv.close()


def test_the_ratio_would_not_be_1_from_another_state() -> None:
    """The test above can fail: with the state at the beginning of the rollout forgotten, it does."""
    space, action = gs.Box(-2.0, 2.0, (3,), np.float64), gs.Discrete(3)
    policy = make_policy(space, action, **options("lstm", False))
    loop, venv = loop_of(policy, lambda: SpaceProbe(space, action, horizon=50), learning_rate=1e-3, clip_range=1e-5)
    fill(loop)
    loop.learn(10**9)
    fill(loop)
    loop._recall._first = torch.zeros_like(loop._recall._first)  # type: ignore[attr-defined]
    assert float(loop.learn(10**9)["train/clip_fraction"]) > 0.2
    venv.close()


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_made_up_rows_begin_nothing_and_count_for_nothing(mode: AutoresetMode) -> None:
    vector = SyncVectorEnv([ConstantReward] * NUM_ENVS, autoreset_mode=mode)
    policy = make_policy(gs.Box(-1.0, 1.0, (2,), np.float32), gs.Discrete(2), **options("gru", False))
    loop, venv = loop_of(policy, vector, clip_range=1e-5)
    batches: list[SequenceBatch] = []
    learn = loop.algorithm.learn

    def kept(batch: Any, progress: float) -> Any:
        batches.append(batch)
        return learn(batch, progress)

    loop.algorithm.learn = kept  # type: ignore[method-assign]
    for _ in range(3):
        fill(loop)
        assert float(loop.learn(10**9)["train/clip_fraction"]) == 0.0
    steps = venv.steps
    valid = np.concatenate([batch._valid for batch in batches])
    np.testing.assert_array_equal(valid, [step.valid for step in steps])
    starts = np.concatenate([batch._starts for batch in batches])
    expected = [np.ones(NUM_ENVS, dtype=bool)] + [step.terminated | step.truncated | ~step.valid for step in steps]
    np.testing.assert_array_equal(starts, expected[:-1])
    assert sum(len(batch.returns) for batch in batches) == valid.sum()
    venv.close()


def test_a2c_learns_from_the_same_outputs_that_it_acted_with() -> None:
    space = gs.Box(-2.0, 2.0, (3,), np.float64)
    policy = make_policy(space, gs.Discrete(3), **options("lstm", True))
    loop, venv = loop_of(policy, lambda: SpaceProbe(space, gs.Discrete(3), horizon=5), "a2c")
    seen: list[Any] = []
    net = policy.parts["net"]
    forward = net.forward

    def watched(*inputs: Any) -> Any:
        seen.append(forward(*inputs))
        return seen[-1]

    net.forward = watched  # type: ignore[method-assign]
    for _ in range(3):
        fill(loop)
        values = loop.rollout.values.flatten().clone()
        loop.learn(10**9)
        np.testing.assert_allclose(seen[-1][-1].detach(), values, atol=1e-6)
    venv.close()


def test_a_state_that_was_saved_goes_on() -> None:
    space = gs.Box(-2.0, 2.0, (3,), np.float64)
    policy = make_policy(space, gs.Discrete(3), **options("lstm", False))
    loop, venv = loop_of(policy, lambda: SpaceProbe(space, gs.Discrete(3), horizon=5))
    for _ in range(7):
        loop.step(10**9, 10**9)
    state = loop.state_dict()
    kept = {name: np.asarray(part).copy() for name, part in state["memory"].items()}
    loop.step(10**9, 10**9)
    assert not np.array_equal(loop.state_dict()["memory"]["state"], kept["state"])
    loop._recall.load_state_dict(state)
    for name, part in loop.state_dict()["memory"].items():
        np.testing.assert_array_equal(part, kept[name])
    venv.close()
