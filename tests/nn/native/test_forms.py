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
from steadyrl.nn.native.actor_critic import ActorCriticKernel
from steadyrl.nn.native.single import Kernel
from steadyrl.nn.part import looking
from steadyrl.nn.policy import Policy
from steadyrl.nn.q_networks import DeterministicActor
from steadyrl.nn.trainable import Trainable
from steadyrl.seeding import Stream
from support.native import check, inputs_of, twin
from support.off_policy import FAMILIES, off_policy
from support.policies import ACTIONS, TREE, VECTOR, make_policy

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


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("obs", [VECTOR, TREE], ids=["vector", "tree"])
def test_outputs_and_gradients_are_those_of_autograd(name: str, obs: gs.Space[Any]) -> None:
    policy = KNOWN[name](obs=obs)
    for key, part in policy.parts.items():
        native = twin(part)
        assert isinstance(native._kernel, Kernel | ActorCriticKernel) == (key not in UNKNOWN.get(name, ()))
        for n in (1, 2, 37):
            check(part, inputs_of(policy, key, obs, n))


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


def test_a_module_of_a_class_of_its_own_runs_through_pytorch() -> None:
    policy = off_policy("td3")
    assert twin(policy.parts["pi"]).on_kernels
    half = Halved(policy.obs_spec, policy.action_spec.size, (8,), "tanh")
    assert not Trainable(half, native=True).on_kernels


def test_a_copy_of_a_module_does_not_run_on_the_kernels_of_the_original() -> None:
    native = twin(off_policy("sac").parts["q"])
    target = native.target()
    inputs = inputs_of(off_policy("sac"), "q", VECTOR, 5)
    before: Tensor = target.evaluate(*inputs)[0].clone()
    native.flat.data.mul_(2.0)
    assert torch.equal(target.evaluate(*inputs)[0], before)
    assert copy.deepcopy(native.module).kernel is None
    assert not torch.allclose(native.evaluate(*inputs)[0], before)
