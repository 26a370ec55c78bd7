"""Networks on the kernels are the networks of PyTorch: the same outputs, the same gradients, the same memory."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from gymnasium import spaces as gs
from torch import Tensor, nn

from steadyrl import kernels
from steadyrl.nn.native import ActorCriticKernel, Kernel
from steadyrl.nn.part import looking
from steadyrl.nn.policy import Policy
from steadyrl.nn.q_networks import DeterministicActor
from steadyrl.nn.trainable import Trainable
from steadyrl.seeding import Stream
from support.off_policy import FAMILIES, off_policy
from support.policies import ACTIONS, TREE, VECTOR, make_policy, sample

pytestmark = pytest.mark.skipif(not kernels.available(), reason=kernels.reason() or "-")

KNOWN: dict[str, Callable[..., Policy]] = {
    **{f"off-policy {family}": lambda family=family, **o: off_policy(family, **o) for family in FAMILIES},
    **{
        f"on-policy {name}": lambda space=space, made=made, **o: make_policy(action=space, **made, **o)
        for name, (space, made) in ACTIONS.items()
    },
}
UNKNOWN = {
    "off-policy dueling": {"q"},
    "off-policy sac-gsde": {"pi"},
    "on-policy gsde": {"net"},
    "on-policy tanh-gsde": {"net"},
}


def inputs_of(policy: Policy, part: str, space: gs.Space[Any], n: int) -> tuple[Any, ...]:
    obs = policy.tensors(policy.obs_spec.store(sample(space, n, seed=n), batch=True))
    if part == "q" and policy.action_spec.kind == "continuous":
        return obs, torch.from_numpy(2 * Stream(n, "actions").uniform((n, policy.action_spec.size)) - 1)
    return (obs,)


def twin(part: Trainable) -> Trainable:
    return Trainable(copy.deepcopy(part.module), native=True)


def check(part: Trainable, inputs: tuple[Any, ...]) -> None:
    native = twin(part)
    expected, found = part.forward(*inputs), native.forward(*inputs)
    weights = tuple(torch.from_numpy(Stream(i, "weights").normal(tuple(x.shape))) for i, x in enumerate(expected))
    for ours, theirs, looked in zip(found, expected, native.evaluate(*inputs), strict=True):
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-6)
        assert torch.equal(looked, ours)
    native.flat.grad.fill_(7.0)
    part.backward(weights)
    native.backward(weights)
    for p, q in zip(native.module.parameters(), part.module.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5)
    if len(inputs) == 2:
        part.forward(*inputs)
        native.forward(*inputs)
        native.evaluate(*inputs_of_other_size(inputs))  # a look keeps nothing of a learning pass away
        before = native.flat.grad.clone()
        torch.testing.assert_close(native.input_gradient(weights), part.input_gradient(weights), rtol=1e-4, atol=1e-5)
        assert torch.equal(native.flat.grad, before)


def inputs_of_other_size(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    obs, actions = inputs
    return {path: leaf[:1] for path, leaf in obs.items()}, actions[:1]


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("obs", [VECTOR, TREE], ids=["vector", "tree"])
def test_outputs_and_gradients_are_those_of_autograd(name: str, obs: gs.Space[Any]) -> None:
    policy = KNOWN[name](obs=obs)
    for key, part in policy.parts.items():
        native = twin(part)
        assert isinstance(native._kernel, Kernel | ActorCriticKernel) == (key not in UNKNOWN.get(name, ()))
        for n in (1, 2, 37):
            check(part, inputs_of(policy, key, obs, n))


@pytest.mark.parametrize("activation", ["tanh", "relu", "elu", "silu"])
@pytest.mark.parametrize("net_arch", [(), (5,), (17, 3), (8, 8, 8)], ids=str)
def test_any_sizes_and_activations(net_arch: tuple[int, ...], activation: str) -> None:
    policy = make_policy(net_arch=net_arch, activation_fn=activation)
    check(policy.parts["net"], inputs_of(policy, "net", VECTOR, 9))


@pytest.mark.parametrize("name", KNOWN)
def test_normalised_layers_run_where_others_do(name: str) -> None:
    policy = KNOWN[name](layer_norm=True, net_arch=(17, 8))
    for key, part in policy.parts.items():
        assert any(isinstance(layer, nn.LayerNorm) for layer in part.module.modules())
        assert twin(part).on_kernels == (key not in UNKNOWN.get(name, ()))
        # Gains and shifts that are not 1 and 0, so that each has its part in the numbers.
        part.flat.data.add_(torch.from_numpy(0.1 * Stream(1, "shift").normal(tuple(part.flat.data.shape))))
        for n in (1, 37):
            check(part, inputs_of(policy, key, VECTOR, n))


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


@pytest.mark.parametrize("n_critics", [1, 2, 3])
@pytest.mark.parametrize("family", ["sac", "sac-discrete"])
def test_any_number_of_critics(family: str, n_critics: int) -> None:
    policy = off_policy(family, n_critics=n_critics)
    check(policy.parts["q"], inputs_of(policy, "q", VECTOR, 9))


def test_only_a_look_runs_on_the_kernels_and_elsewhere_the_module_is_a_plain_one() -> None:
    policy = off_policy("sac")
    native = twin(policy.parts["pi"])
    obs = inputs_of(policy, "pi", VECTOR, 33)[0]
    looked = looking(lambda: native.module(obs))()
    assert all(torch.equal(a, b) for a, b in zip(looked, native.evaluate(obs), strict=True))
    others = {name: torch.zeros_like(p) for name, p in native.module.named_parameters()}
    with torch.no_grad():
        called = torch.func.functional_call(native.module, others, (obs,))
    assert not any(x.any() for x in called)
    assert native.module(obs)[0].requires_grad


class Halved(DeterministicActor):
    def forward(self, obs: Any) -> Any:
        return (0.5 * super().forward(obs)[0],)


@pytest.mark.parametrize("layer", [nn.LayerNorm(8), nn.ELU(alpha=0.5), nn.Dropout(0.0)], ids=str)
def test_what_is_not_exactly_known_runs_through_pytorch(layer: nn.Module) -> None:
    policy = off_policy("td3")
    actor = policy.parts["pi"].module
    assert isinstance(actor, DeterministicActor)
    half = Halved(policy.obs_spec, policy.action_spec.size, (8,), "tanh")
    assert not Trainable(half, native=True).on_kernels
    assert twin(policy.parts["pi"]).on_kernels
    changed = copy.deepcopy(actor)
    changed.trunk = nn.Sequential(*changed.trunk, layer)
    assert not Trainable(changed, native=True).on_kernels


def test_a_copy_of_a_module_does_not_run_on_the_kernels_of_the_original() -> None:
    native = twin(off_policy("sac").parts["q"])
    target = native.target()
    inputs = inputs_of(off_policy("sac"), "q", VECTOR, 5)
    before: Tensor = target.evaluate(*inputs)[0].clone()
    native.flat.data.mul_(2.0)
    assert torch.equal(target.evaluate(*inputs)[0], before)
    assert copy.deepcopy(native.module).kernel is None
    assert not torch.allclose(native.evaluate(*inputs)[0], before)
