"""Networks on the CPU kernels: the same parameters in the same memory, their two passes in native code.

What the kernels do not know (dueling and state-dependent heads, other devices) has no `Kernel` and runs through
PyTorch, unchanged above it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from steadyrl.nn.distributions import Params
from steadyrl.nn.flat import FlatParameters
from steadyrl.nn.gradient import Outputs
from steadyrl.nn.heads import DiscreteHead, GaussianHead
from steadyrl.nn.init import BlankLinear
from steadyrl.nn.networks import ACTIVATIONS, NORM_EPS, ActorCritic
from steadyrl.nn.q_networks import (
    ContinuousCritics,
    DeterministicActor,
    DiscreteCritics,
    GaussianActor,
    QNetwork,
)

_LOOK, _LEARN = 0, 1  # which activations a pass keeps: a look without gradient leaves those of a learning pass alone

Member = tuple[nn.Sequential, Sequence[nn.Linear]]


class Stack:
    """One multilayer perceptron of the kernels, or several of one shape side by side.

    Args:
        flat: Where the parameters are.
        inputs: Width of what goes in.
        members: Hidden layers with their activations, and the heads on the last of them, for each member.
        squash: The output goes through tanh.

    Raises:
        UnknownError: the members hold layers that the kernels do not know.
    """

    def __init__(self, flat: FlatParameters, inputs: int, members: Sequence[Member], *, squash: bool = False) -> None:
        from steadyrl.kernels import _native

        self._flat = flat
        self.width = sum(head.out_features for head in members[0][1])
        self._shape = (len(members),) if len(members) > 1 else ()
        described = [([*map(flat.place, linears(trunk))], [*map(flat.place, heads)]) for trunk, heads in members]
        norms = [[*map(flat.place, _norms(trunk))] for trunk, _ in members]
        kinds = {(_activation(trunk, heads), bool(norm)) for (trunk, heads), norm in zip(members, norms, strict=True)}
        if len(kinds) > 1:
            raise UnknownError
        activation, normed = kinds.pop()
        self.mlp = _native.Mlp(inputs, described, activation, "tanh" if squash else "none", norms if normed else [])

    def forward(self, x: Tensor, x2: Tensor | None = None, slot: int = _LOOK) -> Tensor:
        """[B, width] for features [B, F] and what is appended to them; [members, B, width] for more than one."""
        out = torch.empty((*self._shape, x.shape[0], self.width), dtype=torch.float32)
        x2 = None if x2 is None else x2.contiguous()
        self.mlp.forward(self._flat.data, x.contiguous(), out, slot, x2)
        return out

    def backward(self, gradient: Tensor) -> None:
        """Write the gradient of every parameter, from that of the last learning pass's outputs."""
        self.mlp.backward(self._flat.data, gradient.contiguous(), self._flat.grad, _LEARN)

    def input_gradient(self, gradient: Tensor, like: Tensor) -> Tensor:
        """The gradient of what was appended."""
        found = torch.empty_like(like, memory_format=torch.contiguous_format)
        self.mlp.backward(self._flat.data, gradient.contiguous(), None, _LEARN, found)
        return found


class Kernel:
    """A network of one stack.

    Args:
        module: Whose encoder makes the features.
        stack: Of its parameters.
        split: From the stack's output to the module's outputs, without arithmetic.
        join: From gradients of the outputs to that of the stack's output.
    """

    def __init__(
        self, module: Any, stack: Stack, split: Callable[[Tensor], Any], join: Callable[[Outputs], Tensor]
    ) -> None:
        self._encoder, self._stack, self._split, self._join = module.encoder, stack, split, join
        self._appended: Tensor | None = None

    def look(self, obs: Any, appended: Tensor | None = None) -> Any:
        """What the module's forward gives, without a way back."""
        return self._split(self._stack.forward(self._encoder(obs), appended))

    def forward(self, obs: Any, appended: Tensor | None = None) -> Any:
        """The same, with one."""
        self._appended = appended
        return self._split(self._stack.forward(self._encoder(obs), appended, _LEARN))

    def backward(self, gradients: Outputs) -> None:
        """Write the gradient of every parameter."""
        self._stack.backward(self._join(gradients))

    def input_gradient(self, gradients: Outputs) -> Tensor:
        """The gradient of what was appended to the features."""
        assert self._appended is not None
        return self._stack.input_gradient(self._join(gradients), self._appended)


class ActorCriticKernel:
    """Policy and value network: two stacks on the same features."""

    def __init__(self, net: ActorCritic, flat: FlatParameters) -> None:
        if type(net.policy_head) not in (DiscreteHead, GaussianHead):
            raise UnknownError
        from steadyrl.kernels import _native

        self._encode, self._flat = net.encoder.forward, flat
        features = net.encoder.features
        self._policy = Stack(flat, features, [(net.policy_trunk, linears(net.policy_head))])
        self._value = Stack(flat, features, [(net.value_trunk, [net.value_head])])
        self._both = _native.Mlps([self._policy.mlp, self._value.mlp])
        self._width = self._policy.width
        self._log_std = net.policy_head.log_std if isinstance(net.policy_head, GaussianHead) else None

    def params(self, features: Tensor) -> Params:
        """Parameters of the action distribution."""
        return self._with_std(self._policy.forward(features))

    def values(self, features: Tensor) -> Tensor:
        """[B]."""
        return self._value.forward(features).squeeze(-1)

    def look(self, obs: Any) -> tuple[Params, Tensor]:
        """Both, without a way back."""
        features = self._encode(obs).contiguous()
        return self.look_into(features, self.room(features.shape[0]))

    def forward(self, obs: Any) -> tuple[Params, Tensor]:
        """Both, with one."""
        features = self._encode(obs).contiguous()
        return self.look_into(features, self.room(features.shape[0]), _LEARN)

    def room(self, rows: int) -> tuple[Tensor, Tensor]:
        """Memory for the outputs of so many rows."""
        return torch.empty((rows, self._width), dtype=torch.float32), torch.empty(rows, dtype=torch.float32)

    def look_into(self, features: Any, outputs: tuple[Tensor, Tensor], slot: int = _LOOK) -> tuple[Params, Tensor]:
        """Both in the memory of `outputs`; features [B, F], contiguous."""
        self._both.forward(self._flat.data, features, outputs, slot)
        out, values = outputs
        return self._with_std(out), values

    def _with_std(self, out: Tensor) -> Params:
        return (out,) if self._log_std is None else (out, self._log_std.detach())

    def backward(self, gradients: Outputs) -> None:
        """Write the gradient of every parameter."""
        outer = gradients[0].contiguous(), gradients[-1].contiguous()
        self._both.backward(self._flat.data, outer, self._flat.grad, _LEARN)
        if self._log_std is not None:
            assert self._log_std.grad is not None
            self._log_std.grad.copy_(gradients[1])

    def input_gradient(self, gradients: Outputs) -> Tensor:
        """There is nothing but the observation."""
        raise TypeError("an actor-critic has no second input")


class UnknownError(Exception):
    """The kernels do not know such a network."""


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


def linears(module: nn.Module) -> list[nn.Linear]:
    """The linear layers below a module, in order."""
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear)]


def _norms(trunk: nn.Sequential) -> list[nn.LayerNorm]:
    """The normalisations of the hidden layers, all or none; `_activation` asks whether they stand where they must.

    Raises:
        UnknownError: one differs from what `mlp` makes.
    """
    found = [layer for layer in trunk if isinstance(layer, nn.LayerNorm)]
    for norm in found:
        usual = type(norm) is nn.LayerNorm and norm.eps == NORM_EPS and len(norm.normalized_shape) == 1
        if not usual or {"weight", "bias"} != {name for name, _ in norm.named_parameters()}:
            raise UnknownError
    return found


def _activation(trunk: nn.Sequential, heads: Sequence[nn.Linear]) -> str:
    """The name of what follows each hidden layer.

    Raises:
        UnknownError: there is anything else than linear layers, maybe each with a normalisation, one kind of activation
            after each.
    """
    layers = list(trunk)
    step = 3 if len(layers) > 1 and isinstance(layers[1], nn.LayerNorm) else 2
    between = layers[step - 1 :: step]
    names = {kind: name for name, kind in ACTIVATIONS.items()}
    plain = all(type(layer) is BlankLinear for layer in (*layers[::step], *heads)) and len(layers) == step * len(
        between
    )
    plain = plain and all(type(layer) is nn.LayerNorm for layer in (layers[1::3] if step == 3 else ()))
    kinds = {type(layer) for layer in between} or {nn.Tanh}
    usual = all(not isinstance(layer, nn.ELU) or layer.alpha == 1.0 for layer in between)
    if not plain or not usual or len(kinds) > 1 or not kinds <= names.keys():
        raise UnknownError
    return names[kinds.pop()]
