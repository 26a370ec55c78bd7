"""What the off-policy algorithms share."""

from __future__ import annotations

import pytest
import torch

from steadyrl.algorithms import DQN, SAC, TD3, DiscreteSAC, make_off_policy
from steadyrl.algorithms.metrics import mean_metrics, mean_scalars
from steadyrl.algorithms.off_policy import follow
from steadyrl.configs import DDPGConfig, DQNConfig, OffPolicyConfig, SACConfig, TD3Config
from steadyrl.data.targets import polyak
from steadyrl.nn.gradient import Scalars
from steadyrl.nn.trainable import Trainable
from steadyrl.seeding import Stream
from support.kernels import needs_native
from support.off_policy import off_policy
from support.policies import seeds


def test_metrics_are_averaged_over_the_steps_that_have_them() -> None:
    rows = [{"a": torch.tensor(1.0)}, {"a": torch.tensor(3.0), "b": torch.tensor(5.0)}]
    found = mean_metrics(rows)
    assert {name: float(x) for name, x in found.items()} == {"a": 2.0, "b": 5.0}


@pytest.mark.parametrize("count", [0, 1, 7, 100, 641])
def test_scalars_are_averaged_to_the_same_bits(count: int) -> None:
    names, blocks = ("a", "b", "c"), torch.from_numpy(Stream(0, "scalars").normal((count, 3)))
    rows = [dict(zip(names, block, strict=True)) for block in blocks]
    expected, found = mean_metrics(rows), mean_scalars([Scalars(names, block) for block in blocks])
    assert list(found) == list(expected)
    assert all(torch.equal(torch.as_tensor(found[name]), torch.as_tensor(expected[name])) for name in expected)


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=needs_native)])
@pytest.mark.parametrize("tau", [0.005, 0.7, 1.0])
def test_a_target_follows_as_polyak_says(native: bool, tau: float) -> None:
    part = Trainable(off_policy("dqn").parts["q"].module, native=native)
    target = part.target()
    target.flat.data.copy_(torch.from_numpy(Stream(0, "target").normal(tuple(target.flat.data.shape))))
    expected, online = target.flat.data.clone(), part.flat.data.clone()
    polyak(expected, online, tau)
    follow(target, part, tau)
    torch.testing.assert_close(target.flat.data, expected, rtol=1e-6, atol=1e-7)
    assert torch.equal(part.flat.data, online)
    assert not torch.equal(target.flat.data, online) or tau == 1.0


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
