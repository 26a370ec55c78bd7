"""Which multilayer perceptrons the kernels know, and that any size of them is PyTorch's."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from torch import nn

from steadyrl import kernels
from steadyrl.nn.q_networks import DeterministicActor
from steadyrl.nn.trainable import Trainable
from support.native import check, inputs_of, twin
from support.off_policy import off_policy
from support.policies import VECTOR, make_policy

pytestmark = pytest.mark.skipif(not kernels.available(), reason=kernels.reason() or "-")


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "silu"])
@pytest.mark.parametrize("net_arch", [(), (5,), (17, 3), (8, 8, 8)], ids=str)
def test_any_sizes_and_activations(net_arch: tuple[int, ...], activation: str) -> None:
    policy = make_policy(net_arch=net_arch, activation_fn=activation)
    check(policy.parts["net"], inputs_of(policy, "net", VECTOR, 9))


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "silu"])
@pytest.mark.parametrize("net_arch", [(), (5,), (17, 3), (8, 8, 8)], ids=str)
def test_any_sizes_and_activations_with_normalised_layers(net_arch: tuple[int, ...], activation: str) -> None:
    policy = make_policy(net_arch=net_arch, activation_fn=activation, layer_norm=True)
    part = policy.parts["net"]
    assert twin(part).on_kernels
    check(part, inputs_of(policy, "net", VECTOR, 9))


NORMS: dict[str, Callable[[], nn.Module]] = {
    "other eps": lambda: nn.LayerNorm(8, eps=1e-6),
    "no gain": lambda: nn.LayerNorm(8, elementwise_affine=False),
    "no shift": lambda: nn.LayerNorm(8, bias=False),
    "two axes": lambda: nn.LayerNorm((1, 8)),
    "another kind": lambda: nn.RMSNorm(8),
    "a kind of its own": lambda: type("Own", (nn.LayerNorm,), {})(8),
    "none": nn.Identity,
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("place", [1, 4])
def test_a_normalisation_that_is_not_exactly_known_runs_through_pytorch(norm: str, place: int) -> None:
    policy = off_policy("td3", net_arch=(8, 8), layer_norm=True)
    actor = copy.deepcopy(policy.parts["pi"].module)
    assert Trainable(copy.deepcopy(actor), native=True).on_kernels
    assert isinstance(actor, DeterministicActor)
    assert isinstance(actor.trunk[place], nn.LayerNorm)
    actor.trunk[place] = NORMS[norm]()
    assert not Trainable(actor, native=True).on_kernels


def test_normalisation_in_some_layers_or_some_critics_only_runs_through_pytorch() -> None:
    actor = copy.deepcopy(off_policy("td3", net_arch=(8, 8), layer_norm=True).parts["pi"].module)
    assert isinstance(actor, DeterministicActor)
    del actor.trunk[4]
    assert not Trainable(actor, native=True).on_kernels
    plain, normed = (off_policy("sac", layer_norm=on).parts["q"].module for on in (False, True))
    mixed = copy.deepcopy(plain)
    mixed.critics[1] = copy.deepcopy(normed.critics[1])  # type: ignore[index, operator]
    assert not Trainable(mixed, native=True).on_kernels


@pytest.mark.parametrize("layer", [nn.LayerNorm(8), nn.ELU(alpha=0.5), nn.Dropout(0.0)], ids=str)
def test_a_layer_that_is_not_exactly_known_runs_through_pytorch(layer: nn.Module) -> None:
    policy = off_policy("td3")
    actor = policy.parts["pi"].module
    assert isinstance(actor, DeterministicActor)
    assert twin(policy.parts["pi"]).on_kernels
    changed = copy.deepcopy(actor)
    changed.trunk = nn.Sequential(*changed.trunk, layer)
    assert not Trainable(changed, native=True).on_kernels
