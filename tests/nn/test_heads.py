"""Heads hand out the parameters that their distribution takes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs

from steadyrl.nn.distribution_for import make_distribution
from steadyrl.nn.heads import DiscreteHead, GaussianHead, SDEHead, make_head
from steadyrl.nn.init import init_default, linear_layers
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec

LATENT = torch.from_numpy(Stream(0, "latent").normal((5, 8)))
BOX = gs.Box(-1.0, 1.0, (3,))


@pytest.mark.parametrize(
    ("space", "squash", "use_sde", "kind", "shapes"),
    [
        (gs.Discrete(4, start=-1), False, False, DiscreteHead, [(5, 4)]),
        (gs.MultiDiscrete(np.array([[2, 3], [4, 1]])), False, False, DiscreteHead, [(5, 10)]),
        (gs.MultiBinary((2, 3)), False, False, DiscreteHead, [(5, 6)]),
        (BOX, False, False, GaussianHead, [(5, 3), (3,)]),
        (BOX, True, False, GaussianHead, [(5, 3), (3,)]),
        (BOX, False, True, SDEHead, [(5, 3), (5, 8), (8, 3)]),
        (BOX, True, True, SDEHead, [(5, 3), (5, 8), (8, 3)]),
    ],
)
def test_head_and_distribution_fit(
    space: gs.Space[object], squash: bool, use_sde: bool, kind: type, shapes: list[tuple[int, ...]]
) -> None:
    spec = ActionSpec.of(space)
    distribution = make_distribution(spec, squash=squash, use_sde=use_sde, latent_dim=8)
    head = make_head(distribution, 8, spec, log_std_init=-0.7)
    assert type(head) is kind
    params = head(LATENT)
    assert [tuple(p.shape) for p in params] == shapes
    if kind is not DiscreteHead:
        assert params[-1].eq(-0.7).all()
    actions = distribution.sample(params, torch.from_numpy(distribution.draw(Stream(0, "noise"), 5)))
    assert distribution.log_prob(params, actions).shape == (5,)
    env_actions = spec.to_env(distribution.to_unit(actions).detach().numpy())
    assert all(space.contains(action) for action in env_actions)


def test_heads_are_linear() -> None:
    head = DiscreteHead(8, 4)
    init_default(linear_layers(head), Stream(0, "weights"))
    (logits,) = head(LATENT)
    torch.testing.assert_close(logits, LATENT @ head.logits.weight.T + head.logits.bias)


def test_sde_features_learn_from_the_mean_alone() -> None:
    head = SDEHead(8, 3, 0.0)
    latent = LATENT.clone().requires_grad_()
    mean, phi, log_std = head(latent)
    assert torch.equal(phi, LATENT)
    assert not phi.requires_grad
    assert mean.requires_grad
    assert log_std is head.log_std
