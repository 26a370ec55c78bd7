"""Layer normalisation in every network: where it stands, its first weights, its place in records and in the buffer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from steadyrl.nn.architecture import Architecture
from steadyrl.nn.init import BlankLinear
from steadyrl.nn.networks import mlp
from steadyrl.nn.optim import Adam
from steadyrl.nn.policy import Policy
from steadyrl.nn.trainable import Trainable
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ObsSpec
from support.off_policy import FAMILIES, architecture, off_policy, parameters
from support.policies import ACTIONS, CPU, VECTOR, make_policy

MADE: dict[str, Callable[..., Policy]] = {
    **{f"off-policy {family}": lambda family=family, **o: off_policy(family, **o) for family in FAMILIES},
    **{
        f"on-policy {name}": lambda space=space, made=made, **o: make_policy(action=space, **made, **o)
        for name, (space, made) in ACTIONS.items()
    },
}


def norms(module: nn.Module) -> list[nn.LayerNorm]:
    return [layer for layer in module.modules() if isinstance(layer, nn.LayerNorm)]


def test_a_hidden_layer_is_linear_then_normalised_then_the_activation() -> None:
    found = mlp(3, (5, 4), nn.ReLU, layer_norm=True)
    assert [type(layer) for layer in found] == 2 * [BlankLinear, nn.LayerNorm, nn.ReLU]
    for i, width in ((1, 5), (4, 4)):
        norm = found[i]
        assert isinstance(norm, nn.LayerNorm)
        assert (norm.normalized_shape, norm.eps, norm.weight.dtype) == ((width,), 1e-5, torch.float32)
        assert norm.weight.eq(1).all()
        assert norm.bias.eq(0).all()
    assert len(mlp(3, (), nn.ReLU, layer_norm=True)) == 0


def test_the_formula() -> None:
    net = mlp(6, (7,), nn.Tanh, layer_norm=True)
    with torch.no_grad():
        for name, p in net.named_parameters():
            p.copy_(torch.from_numpy(Stream(0, name).normal(tuple(p.shape))))
    x = torch.from_numpy(Stream(0, "x").normal((4, 6)))
    weight, bias, gain, shift = (p.detach().numpy().astype(np.float64) for p in net.parameters())
    h = x.numpy().astype(np.float64) @ weight.T + bias
    h = (h - h.mean(axis=1, keepdims=True)) / np.sqrt(h.var(axis=1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(net(x).detach().numpy(), np.tanh(gain * h + shift), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MADE)
def test_each_hidden_layer_of_each_network_has_one_and_no_head_has(name: str) -> None:
    plain, normed = MADE[name](net_arch=(6, 4)), MADE[name](net_arch=(6, 4), layer_norm=True)
    assert not norms(plain.net)
    trunks = sum(isinstance(layer, nn.Sequential) and len(layer) == 6 for layer in normed.net.modules())
    assert [layer.weight.numel() for layer in norms(normed.net)] == trunks * [6, 4]
    assert trunks == sum(isinstance(layer, nn.Sequential) and len(layer) == 4 for layer in plain.net.modules())


@pytest.mark.parametrize("name", MADE)
def test_the_other_weights_start_as_without(name: str) -> None:
    plain, normed = MADE[name](net_arch=(6, 4)), MADE[name](net_arch=(6, 4), layer_norm=True)
    beside = {id(p) for layer in norms(normed.net) for p in layer.parameters()}
    others = [p for p in normed.net.parameters() if id(p) not in beside]
    assert all(torch.equal(a, b) for a, b in zip(others, plain.net.parameters(), strict=True))


def test_new_initial_weights_leave_nothing_of_old_norms() -> None:
    policy = make_policy(net_arch=(6, 4), layer_norm=True)
    before = policy.sha256()
    policy.parts["net"].flat.data.mul_(3.0).add_(1.0)
    policy.initialise(Stream(0, "weights"), ortho=False)
    assert policy.sha256() == before
    assert all(layer.weight.eq(1).all() and layer.bias.eq(0).all() for layer in norms(policy.net))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("net_arch", [(), (8,), (6, 4)], ids=str)
def test_weights_are_counted_without_making_any(family: str, net_arch: tuple[int, ...]) -> None:
    made = architecture(family, net_arch, layer_norm=True)
    policy = off_policy(family, net_arch=net_arch, layer_norm=True)
    wanted = parameters(policy.net).size
    assert made.parameters(policy.obs_spec, policy.action_spec) == wanted
    plain = architecture(family, net_arch).parameters(policy.obs_spec, policy.action_spec)
    networks = {"dqn": 1, "td3": 3, "sac": 3}[made.family]
    assert wanted - plain == networks * 2 * sum(net_arch)


@pytest.mark.parametrize("name", ACTIONS)
def test_weights_of_actor_critics_are_counted(name: str) -> None:
    space, options = ACTIONS[name]
    policy = make_policy(action=space, net_arch=(6, 4), layer_norm=True, **options)
    found = policy.architecture.parameters(ObsSpec.of(VECTOR), ActionSpec.of(space))
    assert found == parameters(policy.net).size


def as_json(made: Architecture) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(asdict(made)))
    return found


def test_a_record_of_before_there_were_norms_means_none() -> None:
    made = architecture("sac")
    data = as_json(made)
    del data["layer_norm"]
    assert Architecture.from_json(data) == made
    normed = architecture("sac", layer_norm=True)
    assert Architecture.from_json(as_json(normed)) == normed != made


def test_a_policy_is_described_with_its_norms() -> None:
    policy = off_policy("td3", layer_norm=True)
    data = json.loads(json.dumps(policy.describe()))
    again = Policy.from_description(data, CPU, parameters=parameters(policy.net).size)
    again.load_state_dict(policy.state_dict())
    assert again.sha256() == policy.sha256()
    data["architecture"]["layer_norm"] = False
    with pytest.raises(ValueError, match="weights, but there are"):
        Policy.from_description(data, CPU, parameters=parameters(policy.net).size)


@pytest.mark.parametrize("native", [False, True])
def test_gains_and_shifts_lie_in_the_buffer_and_clipping_sees_their_gradients(native: bool) -> None:
    part = Trainable(make_policy(net_arch=(6, 4), layer_norm=True).parts["net"].module, native=native)
    module, flat = part.module, part.flat
    assert flat.intact()
    for layer in norms(module):
        gain, shift, width = flat.place(layer)
        assert (gain % 16, shift % 16, width) == (0, 0, layer.weight.numel())
        for p, start in ((layer.weight, gain), (layer.bias, shift)):
            assert p.data_ptr() == flat.data[start:].data_ptr()
            assert p.grad is not None
            assert p.grad.data_ptr() == flat.grad[start:].data_ptr()
    obs = {"": torch.from_numpy(Stream(0, "x").normal((9, 3)))}
    outputs = part.forward(obs)
    part.backward(tuple(torch.ones_like(out) for out in outputs))
    every = [p.grad.clone() for p in module.parameters() if p.grad is not None]
    of_norms = [grad_of(p) for layer in norms(module) for p in layer.parameters()]
    assert len(of_norms) == 8
    assert all(grad.any() for grad in of_norms)
    norm = torch.stack([grad.square().sum() for grad in every]).sum().sqrt()
    found = Adam(flat).step(1e-3, 0.5)
    torch.testing.assert_close(found, norm, rtol=1e-5, atol=0)
    assert norm > 0.5
    clipped = torch.stack([grad_of(p).square().sum() for p in module.parameters()]).sum().sqrt()
    torch.testing.assert_close(clipped, torch.tensor(0.5), rtol=1e-4, atol=0)
    assert not any(layer.weight.eq(1).all() or layer.bias.eq(0).all() for layer in norms(module))


def grad_of(p: nn.Parameter) -> Tensor:
    assert p.grad is not None
    return p.grad.clone()
