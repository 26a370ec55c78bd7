"""Which networks have a form on the kernels, and which form it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from steadyrl.nn.flat import FlatParameters
from steadyrl.nn.native.actor_critic import ActorCriticKernel
from steadyrl.nn.native.single import Kernel
from steadyrl.nn.native.stack import Member, Stack, UnknownError, linears
from steadyrl.nn.networks import ActorCritic
from steadyrl.nn.q_networks import (
    ContinuousCritics,
    DeterministicActor,
    DiscreteCritics,
    GaussianActor,
    QNetwork,
)


def kernel_for(module: nn.Module, flat: FlatParameters) -> Kernel | ActorCriticKernel | None:
    """The kernels' form of a module; None where they do not know exactly this network, so that PyTorch runs it."""
    if not flat.native or type(module) not in _KINDS:
        return None
    try:
        return _KINDS[type(module)](module, flat)
    except UnknownError:
        return None


def _q_network(module: QNetwork, flat: FlatParameters) -> Kernel:
    stack = Stack(flat, module.encoder.features, [_member(module)])
    shape = (-1, *module.shape)
    return Kernel(module, stack, lambda out: out.view(shape), lambda grads: grads[0].flatten(1))


def _discrete_critics(module: DiscreteCritics, flat: FlatParameters) -> Kernel:
    critics: list[Any] = list(module)
    if len(critics) > 1 and critics[0].encoder.learns:  # each has features of its own
        raise UnknownError
    stack = Stack(flat, critics[0].encoder.features, [_member(critic) for critic in critics])
    if len(critics) == 1:
        return Kernel(critics[0], stack, lambda out: out.unsqueeze(0), lambda grads: grads[0].squeeze(0))
    return Kernel(critics[0], stack, lambda out: out, lambda grads: grads[0])


def _continuous_critics(module: ContinuousCritics, flat: FlatParameters) -> Kernel:
    members: list[Member] = [(critic[0], [critic[1]]) for critic in module.critics]  # type: ignore[index]
    stack = Stack(flat, linears(module.critics[0])[0].in_features, members)
    if len(members) == 1:
        return Kernel(module, stack, lambda out: out.T, lambda grads: grads[0].T)
    return Kernel(module, stack, lambda out: out.squeeze(-1), lambda grads: grads[0].unsqueeze(-1))


def _deterministic_actor(module: DeterministicActor, flat: FlatParameters) -> Kernel:
    stack = Stack(flat, module.encoder.features, [(module.trunk, [module.head])], squash=True)
    return Kernel(module, stack, lambda out: (out,), lambda grads: grads[0])


def _gaussian_actor(module: GaussianActor, flat: FlatParameters) -> Kernel:
    stack = Stack(flat, module.encoder.features, [(module.trunk, [module.mean, module.log_std])])
    return Kernel(module, stack, lambda out: out.chunk(2, dim=-1), lambda grads: torch.cat(grads, dim=-1))


def _member(module: QNetwork) -> Member:
    if type(module) is not QNetwork or module.value_head is not None:
        raise UnknownError
    return module.trunk, [module.advantage_head]


_KINDS: dict[type[nn.Module], Callable[[Any, FlatParameters], Kernel | ActorCriticKernel]] = {
    ActorCritic: ActorCriticKernel,
    QNetwork: _q_network,
    DiscreteCritics: _discrete_critics,
    ContinuousCritics: _continuous_critics,
    DeterministicActor: _deterministic_actor,
    GaussianActor: _gaussian_actor,
}
