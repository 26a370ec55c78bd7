"""Actions with parts: the parts' own distributions, independent, on any place of the tree."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces as gs

from steadyrl.nn.discrete import Bernoulli, Categorical, MultiCategorical
from steadyrl.nn.factored import factored
from steadyrl.nn.gaussian import DiagGaussian
from steadyrl.nn.heads import TreeHead, make_head
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ActionTree

SPACE = gs.Dict(
    {
        "a": gs.Discrete(3, start=-1),
        "b": gs.Tuple((gs.Box(-1, 1, (2,)), gs.MultiDiscrete([2, 4]))),
        "c": gs.MultiBinary((2, 1)),
    }
)
B = 400


def spec() -> ActionTree:
    found = ActionSpec.of(SPACE)
    assert isinstance(found, ActionTree)
    return found


def params(seed: int = 0) -> tuple[torch.Tensor, ...]:
    draw = Stream(seed, "params")
    widths = (3, 2, None, 6, 2)
    return tuple(torch.from_numpy(draw.normal((2,) if n is None else (B, n))) for n in widths)


def test_densities_and_entropies_are_sums_over_the_parts() -> None:
    distribution, given = factored(spec()), params()
    noise = torch.from_numpy(distribution.draw(Stream(1, "noise"), B))
    actions = distribution.sample(given, noise)
    assert (actions.shape, actions.dtype) == ((B, 7), torch.float32)
    parts = [
        (Categorical(), (given[0],), actions[:, 0].long()),
        (DiagGaussian(2), given[1:3], actions[:, 1:3]),
        (MultiCategorical((2, 4)), (given[3],), actions[:, 3:5].long()),
        (Bernoulli(2), (given[4],), actions[:, 5:].long()),
    ]
    each = [part.log_prob(own, action) for part, own, action in parts]
    assert torch.allclose(distribution.log_prob(given, actions), sum(each[1:], each[0]), atol=1e-5)
    entropies = [part.entropy(own, each[0]) for part, own, _ in parts]
    assert torch.allclose(distribution.entropy(given, each[0]), sum(entropies[1:], entropies[0]), atol=1e-5)
    modes = [part.mode(own).reshape(B, -1).float() for part, own, _ in parts]
    assert torch.equal(distribution.mode(given), torch.cat(modes, dim=1))


def test_parts_are_sampled_as_they_would_be_alone() -> None:
    distribution, given = factored(spec()), params()
    drawn = distribution.draw(Stream(1, "noise"), B)
    assert drawn.shape == (B, 1 + 2 + 2 + 2)
    assert drawn.dtype == np.float32
    noise = torch.from_numpy(drawn)
    actions = distribution.sample(given, noise)
    assert torch.equal(actions[:, 0].long(), Categorical().sample((given[0],), noise[:, 0]))
    assert torch.equal(actions[:, 1:3], DiagGaussian(2).sample(given[1:3], noise[:, 1:3]))
    assert torch.equal(actions[:, 3:5].long(), MultiCategorical((2, 4)).sample((given[3],), noise[:, 3:5]))
    assert torch.equal(actions[:, 5:].long(), Bernoulli(2).sample((given[4],), noise[:, 5:]))


def test_every_sample_is_an_action_of_the_environment() -> None:
    distribution, space = factored(spec()), spec()
    actions = distribution.sample(params(), torch.from_numpy(distribution.draw(Stream(2, "noise"), B)))
    found = space.to_env(distribution.to_unit(actions).numpy())
    rows = [space.unpacked(found, i) for i in range(B)]
    assert all(SPACE.contains(row) for row in rows)
    assert {int(row["a"]) for row in rows} == {-1, 0, 1}


def test_the_head_has_the_parameters_that_the_distribution_takes() -> None:
    head = make_head(factored(spec()), 5, spec(), -0.5)
    assert isinstance(head, TreeHead)
    shapes = [tuple(param.shape) for param in head(torch.zeros(2, 5))]
    assert shapes == [(2, 3), (2, 2), (2,), (2, 6), (2, 2)]
    assert head(torch.zeros(2, 5))[2].tolist() == [-0.5, -0.5]
