"""Networks of the off-policy algorithms, against the same arithmetic in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs

from steadyrl.nn.actor_critics import ActorAndCritics, DiscreteActorAndCritics
from steadyrl.nn.gaussian import LOG_STD_MAX, LOG_STD_MIN
from steadyrl.nn.q_networks import DiscreteQ, GaussianActor, SDEActor
from steadyrl.seeding import Stream
from support.off_policy import FAMILIES, linears, numbers, off_policy, parameters, tanh_mlp
from support.policies import TREE

OBS = torch.from_numpy(np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32))
X = OBS.numpy().astype(np.float64)


def discrete(family: str, **options: Any) -> DiscreteQ:
    net = off_policy(family, **options).net
    assert isinstance(net, DiscreteQ)
    return net


def test_values_are_those_of_a_plain_network() -> None:
    net = discrete("dqn", net_arch=(8, 5))
    expected = tanh_mlp(linears(net), X)
    assert net({"": OBS}).shape == (7, 3, 1)
    np.testing.assert_allclose(numbers(net({"": OBS}))[..., 0], expected, atol=1e-6)
    np.testing.assert_allclose(numbers(net.actor({"": OBS})[0]), expected, atol=1e-6)
    np.testing.assert_allclose(numbers(net.critic({"": OBS})), expected.max(1), atol=1e-6)


@pytest.mark.parametrize("head", ["mean", "c51", "quantile"])
def test_dueling_subtracts_the_mean_advantage(head: str) -> None:
    options: dict[str, Any] = {
        "mean": {},
        "c51": {"outputs": 5, "v_min": -1.0, "v_max": 1.0},
        "quantile": {"outputs": 4},
    }
    net = discrete("dueling", head=head, **options[head])
    trunk, advantage, value = linears(net)
    hidden = np.tanh(X @ trunk[0].T + trunk[1])
    k = len(value[1])
    advantages = (hidden @ advantage[0].T + advantage[1]).reshape(7, 3, k)
    values = hidden @ value[0].T + value[1]
    outputs = numbers(net({"": OBS}))
    np.testing.assert_allclose(outputs, values[:, None] + advantages - advantages.mean(1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(outputs.mean(1), values, atol=1e-6)  # the advantages have mean 0


def test_dueling_cannot_see_a_constant_in_its_advantages() -> None:
    net = discrete("dueling")
    before = net({"": OBS})
    with torch.no_grad():
        net.q.advantage_head.bias.add_(5.0)
    torch.testing.assert_close(net({"": OBS}), before, atol=1e-5, rtol=0.0)


def test_the_means_of_distributions() -> None:
    c51, quantile = discrete("c51"), discrete("quantile")
    logits = np.log(np.array([[[0.1, 0.2, 0.4, 0.2, 0.1], [0.0001, 0.0001, 0.0001, 0.0001, 0.9996]]]))
    means = numbers(c51.means(torch.from_numpy(logits).float()))
    np.testing.assert_allclose(means, [[0.0, 0.9996 * 2 - 0.0001 * 3 + 0.0001]], atol=1e-5)
    found = quantile.means(torch.tensor([[[1.0, 2.0, 3.0, 6.0], [0.0, 0.0, 0.0, 4.0]]]))
    assert found.tolist() == [[3.0, 1.0]]
    assert c51.critic({"": OBS}).abs().max() < 2.0  # within the support


def test_the_support_of_c51_is_no_weight() -> None:
    net = discrete("c51")
    assert isinstance(net.support, torch.Tensor)
    assert net.support.tolist() == [-2.0, -1.0, 0.0, 1.0, 2.0]
    assert "support" not in net.state_dict()


def test_continuous_critics_see_observation_and_action() -> None:
    net = off_policy("td3").net
    assert isinstance(net, ActorAndCritics)
    actions = torch.from_numpy(np.random.default_rng(1).uniform(-1, 1, (7, 2)).astype(np.float32))
    found = numbers(net.q({"": OBS}, actions))
    inputs = np.concatenate([X, actions.numpy()], axis=1)
    expected = np.stack([tanh_mlp(linears(critic), inputs)[:, 0] for critic in net.q.critics])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert not np.isclose(expected[0], expected[1]).any()


@pytest.mark.parametrize("family", ["td3", "sac", "sac-gsde"])
def test_the_value_is_the_smallest_critic_of_the_policys_own_action(family: str) -> None:
    policy = off_policy(family)
    assert isinstance(policy.net, ActorAndCritics)
    unit = policy.modes({"": OBS.numpy()})
    expected = policy.net.q({"": OBS}, unit).min(0).values
    torch.testing.assert_close(policy.values({"": OBS.numpy()}), expected.detach())
    assert unit.abs().max() < 1.0
    assert parameters(policy.net.q).size > 0


def test_the_deterministic_actor_is_a_network_through_tanh() -> None:
    net = off_policy("td3").net
    assert isinstance(net, ActorAndCritics)
    np.testing.assert_allclose(numbers(net.pi({"": OBS})[0]), np.tanh(tanh_mlp(linears(net.pi), X)), atol=1e-6)


def test_state_dependent_exploration_has_a_standard_deviation_for_each_feature() -> None:
    net = off_policy("sac-gsde").net
    assert isinstance(net, ActorAndCritics)
    assert isinstance(net.pi, SDEActor)
    mean, phi, log_std = net.pi({"": OBS})
    assert (mean.shape, phi.shape, log_std.shape) == ((7, 2), (7, 8), (8, 2))
    assert log_std.unique().tolist() == [-1.0]
    assert phi.requires_grad  # the features learn from the spread too
    with torch.no_grad():
        net.pi.head.mean.weight.mul_(1e4)
    assert set(net.pi({"": OBS})[0].abs().unique().tolist()) == {2.0}
    trunk = linears(net.pi)[0]
    np.testing.assert_allclose(numbers(phi), np.tanh(X @ trunk[0].T + trunk[1]), atol=1e-6)


def test_the_value_of_discrete_sac_is_an_expectation() -> None:
    net = off_policy("sac-discrete").net
    assert isinstance(net, DiscreteActorAndCritics)
    logits = tanh_mlp(linears(net.pi), X)
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    values = np.stack([tanh_mlp(linears(critic), X) for critic in net.q])
    np.testing.assert_allclose(numbers(net.critic({"": OBS})), (p * values.min(0)).sum(1), atol=1e-6)
    np.testing.assert_allclose(numbers(net.q({"": OBS})), values, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_initial_weights_come_from_the_stream_within_their_bounds(family: str) -> None:
    policy, same, other = off_policy(family), off_policy(family), off_policy(family, seed=1)
    assert policy.sha256() == same.sha256() != other.sha256()
    for weight, bias in linears(policy.net):
        bound = 1 / np.sqrt(weight.shape[1])
        assert np.abs(weight).max() <= bound
        assert np.abs(bias).max() <= bound
        assert weight.std() == pytest.approx(bound / np.sqrt(3), rel=0.35)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_kind_of_observation_and_no_hidden_layer(family: str) -> None:
    spaces: list[gs.Space[Any]] = [TREE, gs.Discrete(4, start=-2), gs.Box(-1, 1, (2, 3))]
    for space in spaces:
        policy = off_policy(family, obs=space, net_arch=())
        space.seed(0)
        obs = policy.obs_spec.store(space.sample(), batch=False)
        actions = policy.predict(obs, Stream(0, "x"))
        assert actions.shape[0] == 1
        assert np.isfinite(numbers(policy.values(obs))).all()


def test_the_spread_of_a_gaussian_actor_is_bounded_where_it_is_used() -> None:
    policy = off_policy("sac")
    assert isinstance(policy.net, ActorAndCritics)
    assert isinstance(policy.net.pi, GaussianActor)
    noise = torch.ones(7, 2)
    params = policy.net.pi({"": OBS})
    wide = policy.distribution.sample((params[0], torch.tensor([1e4, -1e4]).expand(7, 2)), noise)
    bounds = torch.tensor([LOG_STD_MAX, LOG_STD_MIN]).exp()
    torch.testing.assert_close(wide, params[0] + bounds)
