"""What the off-policy algorithms share."""

from __future__ import annotations

import pytest
import torch

from steadyrl.algorithms import DQN, SAC, TD3, DiscreteSAC, make_off_policy
from steadyrl.algorithms.metrics import mean_metrics
from steadyrl.configs import DDPGConfig, DQNConfig, OffPolicyConfig, SACConfig, TD3Config
from support.off_policy import off_policy
from support.policies import seeds


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
