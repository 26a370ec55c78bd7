"""The policy: what it hands out agrees with its parts, and its state and description make it again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs

from steadyrl.nn.architecture import Architecture
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ObsSpec
from support.policies import ACTIONS, CPU, TREE, VECTOR, make_policy, sample


@pytest.mark.parametrize("obs", [VECTOR, TREE], ids=["vector", "tree"])
@pytest.mark.parametrize("name", ACTIONS)
def test_act_agrees_with_network_and_distribution(name: str, obs: gs.Space[Any]) -> None:
    action, options = ACTIONS[name]
    policy = make_policy(obs, action, **options)
    tree = policy.obs_spec.store(sample(obs, 5), batch=True)
    noise = policy.distribution.draw(Stream(0, "n"), 5)
    actions, log_probs, values = policy.act(tree, noise)
    params, expected_values = policy.net(policy.tensors(tree))
    assert torch.equal(actions, policy.distribution.sample(params, torch.from_numpy(noise)))
    assert torch.equal(log_probs, policy.distribution.log_prob(params, actions))
    assert torch.equal(values, expected_values)
    assert torch.equal(policy.values(tree), expected_values)
    assert not actions.requires_grad
    assert not values.requires_grad
    for row in policy.to_env(actions):
        assert action.contains(row)


@pytest.mark.parametrize("name", ACTIONS)
def test_predict_is_the_mode_or_a_sample_in_the_environments_form(name: str) -> None:
    action, options = ACTIONS[name]
    policy = make_policy(VECTOR, action, normalize_obs=True, **options)
    tree = policy.obs_spec.store(sample(VECTOR, 6), batch=True)
    params = policy.net.actor(policy.tensors(policy.normalise(tree)))
    found = policy.predict(tree)
    assert np.array_equal(found, policy.to_env(policy.distribution.mode(params).detach()))
    assert np.array_equal(found, policy.predict(tree))
    sampled = policy.predict(tree, Stream(1, "p"))
    noise = torch.from_numpy(policy.distribution.draw(Stream(1, "p"), 6))
    assert np.array_equal(sampled, policy.to_env(policy.distribution.sample(params, noise).detach()))
    for row in (*found, *sampled):
        assert action.contains(row)


def test_the_normaliser_is_used_and_left_alone() -> None:
    policy = make_policy(normalize_obs=True)
    assert policy.normalizer is not None
    tree = policy.obs_spec.store(sample(VECTOR, 50, seed=3) * 100 + 7, batch=True)
    before = policy.sha256()
    normalised = policy.normalise(tree)
    statistic = policy.normalizer.statistics[""]
    expected = np.clip((tree[""] - statistic.mean) / np.sqrt(statistic.var + 1e-8), -10, 10)
    np.testing.assert_allclose(normalised[""], expected, rtol=1e-6)
    policy.predict(tree)
    policy.values(normalised)
    assert policy.sha256() == before
    plain = make_policy()
    assert plain.normalise(tree) is tree


def test_the_hash_sees_every_number() -> None:
    policy = make_policy(normalize_obs=True)
    first = policy.sha256()
    assert first == make_policy(normalize_obs=True).sha256()
    for name, tensor in policy.state_dict().items():
        changed = policy.state_dict()
        changed[name] = tensor.clone()
        changed[name].view(-1)[-1] += 1
        other = make_policy(normalize_obs=True)
        other.load_state_dict(changed)
        assert other.sha256() != first, name
        other.load_state_dict(policy.state_dict())
        assert other.sha256() == first


def test_the_state_is_a_copy() -> None:
    policy = make_policy(normalize_obs=True)
    before = policy.sha256()
    for tensor in policy.state_dict().values():
        tensor.fill_(3)
    assert policy.sha256() == before


@pytest.mark.parametrize("net_arch", [(), (5,), (5, 3, 2)])
@pytest.mark.parametrize(
    "obs", [VECTOR, TREE, gs.MultiDiscrete(np.array([[2], [9]]))], ids=["vector", "tree", "multidiscrete"]
)
@pytest.mark.parametrize("name", ACTIONS)
def test_weights_are_counted_without_making_them(name: str, obs: gs.Space[Any], net_arch: tuple[int, ...]) -> None:
    action, options = ACTIONS[name]
    policy = make_policy(obs, action, net_arch=net_arch, **options)
    actual = sum(p.numel() for p in policy.net.parameters())
    assert policy.architecture.parameters(policy.obs_spec, policy.action_spec) == actual
    Policy.from_description(policy.describe(), CPU, parameters=actual)
    with pytest.raises(ValueError, match=f"has {actual} weights, but there are {actual - 1}"):
        Policy.from_description(policy.describe(), CPU, parameters=actual - 1)


def test_counting_unequal_trunks() -> None:
    architecture = Architecture({"pi": (4,), "vf": (7, 2)}, "relu", 0.0, False, False)
    obs_spec, action_spec = ObsSpec.of(VECTOR), ActionSpec.of(gs.Discrete(2))
    policy = Policy(obs_spec, action_spec, architecture, None, CPU)
    # pi: 3 x 4 + 4, 4 x 2 + 2; vf: 3 x 7 + 7, 7 x 2 + 2, 2 x 1 + 1
    assert architecture.parameters(obs_spec, action_spec) == 16 + 10 + 28 + 16 + 3
    assert sum(p.numel() for p in policy.net.parameters()) == 73
