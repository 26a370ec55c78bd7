"""The two passes of a network, and a target network that follows nothing by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from steadyrl.nn.part import Part
from steadyrl.nn.trainable import Trainable, flatten
from steadyrl.seeding import Stream
from support.off_policy import off_policy, parameters

B = 5


def critics() -> tuple[Trainable, dict[str, Tensor], Tensor]:
    policy = off_policy("td3")
    stream = Stream(0, "inputs")
    obs = {"": torch.from_numpy(stream.normal((B, policy.obs_spec.leaves[0].size)))}
    return policy.parts["q"], obs, torch.from_numpy(stream.normal((B, policy.action_spec.size)))


def expected(net: Trainable, obs: dict[str, Tensor], actions: Tensor, weights: Tensor) -> tuple[list[Tensor], Tensor]:
    """Gradients of sum(weights * Q) by autograd alone: of the parameters and of the actions."""
    inputs = actions.clone().requires_grad_()
    value = (weights * net.module(obs, inputs)).sum()
    *gradients, by_input = torch.autograd.grad(value, [*net.module.parameters(), inputs])
    return gradients, by_input


def test_backward_writes_the_gradient_of_every_parameter_over_what_was_there() -> None:
    net, obs, actions = critics()
    weights = torch.arange(2.0 * B).reshape(2, B)
    gradients, _ = expected(net, obs, actions, weights)
    net.flat.grad.fill_(7.0)
    (values,) = net.forward(obs, actions)
    assert values.shape == (2, B)
    net.backward((weights,))
    for parameter, gradient in zip(net.module.parameters(), gradients, strict=True):
        assert gradient.any()
        torch.testing.assert_close(parameter.grad, gradient)
    assert net.flat.intact()


def test_the_input_gradient_leaves_the_parameters_alone() -> None:
    net, obs, actions = critics()
    weights = torch.arange(2.0 * B).reshape(2, B)
    _, by_actions = expected(net, obs, actions, weights)
    before = net.flat.grad.fill_(7.0).clone()
    net.forward(obs, actions)
    torch.testing.assert_close(net.input_gradient((weights,)), by_actions)
    assert torch.equal(net.flat.grad, before)
    assert actions.grad is None


def test_evaluation_gives_the_same_numbers_and_no_way_back() -> None:
    net, obs, actions = critics()
    (values,), (evaluated,) = net.forward(obs, actions), net.evaluate(obs, actions)
    assert torch.equal(values, evaluated)
    assert not evaluated.requires_grad


def test_an_output_that_nothing_is_learnt_through_is_passed_over() -> None:
    class Half(Part):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 1)

        def forward(self, obs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
            return self.layer(obs[""]), obs[""]

    net = Trainable(Half(), native=False)
    net.forward({"": torch.ones(3, 2)})
    net.backward((torch.ones(3, 1), torch.full((3, 2), torch.nan)))
    assert net.module.layer.weight.grad.tolist() == [[3.0, 3.0]]  # type: ignore[union-attr, operator]


def test_a_target_network_is_a_copy_that_follows_nothing_by_itself() -> None:
    net, obs, actions = critics()
    target = net.target()
    np.testing.assert_array_equal(parameters(target.module), parameters(net.module))
    net.flat.data.add_(1.0)
    assert not np.allclose(parameters(target.module), parameters(net.module))
    target.flat.data.copy_(net.flat.data)
    assert torch.equal(target.evaluate(obs, actions)[0], net.evaluate(obs, actions)[0])
    assert target.flat.intact()
    assert net.flat.intact()
    assert not any(p.requires_grad for p in target.module.parameters())
    assert all(p.requires_grad for p in net.module.parameters())


@pytest.mark.parametrize("outputs", [torch.ones(1), (torch.ones(1),), ((torch.ones(1),), torch.zeros(2))], ids=str)
def test_outputs_come_as_one_tuple(outputs: Any) -> None:
    found = flatten(outputs)
    assert [list(x.shape) for x in found] == ([[1], [2]] if len(found) == 2 else [[1]])
