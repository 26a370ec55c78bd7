"""What the off-policy algorithms share."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from steadyrl.algorithms import DQN, SAC, TD3, DiscreteSAC, make_off_policy
from steadyrl.algorithms.metrics import mean_metrics
from steadyrl.algorithms.off_policy import frozen, target_network
from steadyrl.configs import DDPGConfig, DQNConfig, OffPolicyConfig, SACConfig, TD3Config
from steadyrl.nn.flat import FlatParameters
from support.off_policy import off_policy, parameters
from support.policies import seeds


def test_a_target_network_is_a_copy_that_follows_nothing_by_itself() -> None:
    net = off_policy("td3").net
    online = FlatParameters(net)
    target, flat = target_network(net)
    np.testing.assert_array_equal(parameters(target), parameters(net))
    assert torch.equal(flat.data, online.data)
    online.data.add_(1.0)
    assert not np.allclose(parameters(target), parameters(net))
    flat.data.copy_(online.data)
    np.testing.assert_array_equal(parameters(target), parameters(net))
    assert flat.intact()
    assert online.intact()
    assert not any(p.requires_grad for p in target.parameters())
    assert all(p.requires_grad for p in net.parameters())


def test_frozen_lets_gradients_through_and_none_in() -> None:
    layer = torch.nn.Linear(2, 1)
    flat = FlatParameters(layer)
    inputs = torch.ones(1, 2, requires_grad=True)
    with frozen(layer):
        layer(inputs).sum().backward()
    assert inputs.grad is not None
    torch.testing.assert_close(inputs.grad, layer.weight.detach())
    assert not flat.grad.any()
    layer(inputs).sum().backward()
    assert flat.grad.any()


def test_frozen_thaws_after_an_error() -> None:
    layer = torch.nn.Linear(2, 1)
    with pytest.raises(ZeroDivisionError), frozen(layer):
        raise ZeroDivisionError
    assert all(p.requires_grad for p in layer.parameters())


def test_metrics_are_averaged_over_the_steps_that_have_them() -> None:
    rows = [{"a": torch.tensor(1.0)}, {"a": torch.tensor(3.0), "b": torch.tensor(5.0)}]
    found = mean_metrics(rows)
    assert {name: float(x) for name, x in found.items()} == {"a": 2.0, "b": 5.0}


@pytest.mark.parametrize(
    ("config", "family", "kind"),
    [
        (DQNConfig(), "dqn", DQN),
        (TD3Config(), "td3", TD3),
        (DDPGConfig(), "td3", TD3),
        (SACConfig(), "sac", SAC),
        (SACConfig(), "sac-discrete", DiscreteSAC),
    ],
)
def test_each_configuration_makes_its_algorithm(config: OffPolicyConfig, family: str, kind: type) -> None:
    policy = off_policy(family)
    algorithm = make_off_policy(config, policy, seeds())
    assert type(algorithm) is kind
    assert algorithm.policy is policy


def test_a_configuration_without_an_algorithm_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="no algorithm for OffPolicyConfig"):
        make_off_policy(OffPolicyConfig(), off_policy("dqn"), seeds())
