"""Networks on the CPU kernels: the same parameters in the same memory, their two passes in native code.

What the kernels do not know (dueling and state-dependent heads, other devices) has no `Kernel` and runs through
PyTorch, unchanged above it. Encoders with weights, such as those of images, run through PyTorch in front of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from steadyrl.nn.distributions import Params
from steadyrl.nn.encoders import Encoder
from steadyrl.nn.flat import FlatParameters
from steadyrl.nn.gradient import Outputs
from steadyrl.nn.heads import DiscreteHead, GaussianHead, TreeHead
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

    def backward(self, gradient: Tensor, inputs: Tensor | None = None) -> None:
        """Write the gradient of every parameter, from that of the last learning pass's outputs.

        Args:
            gradient: Of the outputs.
            inputs: Gets the gradient of what was appended.
        """
        self.mlp.backward(self._flat.data, gradient.contiguous(), self._flat.grad, _LEARN, inputs)

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
        self._front = Front(module.encoder) if module.encoder.learns else None

    @property
    def learns_by_torch(self) -> bool:
        """Whether PyTorch runs an encoder in front."""
        return self._front is not None

    def look(self, obs: Any, appended: Tensor | None = None) -> Any:
        """What the module's forward gives, without a way back."""
        return self._split(self._stack.forward(self._encoder(obs), appended))

    def forward(self, obs: Any, appended: Tensor | None = None) -> Any:
        """The same, with one."""
        if self._front is None:
            self._appended = appended
            return self._split(self._stack.forward(self._encoder(obs), appended, _LEARN))
        features = self._front.forward(obs)
        self._appended = features if appended is None else torch.cat([features, appended], dim=-1)
        return self._split(self._stack.forward(self._front.nothing, self._appended, _LEARN))

    def backward(self, gradients: Outputs) -> None:
        """Write the gradient of every parameter."""
        if self._front is None:
            self._stack.backward(self._join(gradients))
            return
        assert self._appended is not None
        found = torch.empty_like(self._appended)
        self._stack.backward(self._join(gradients), found)
        self._front.backward(found[:, : self._encoder.features])

    def input_gradient(self, gradients: Outputs) -> Tensor:
        """The gradient of what was appended to the features."""
        assert self._appended is not None
        found = self._stack.input_gradient(self._join(gradients), self._appended)
        return found if self._front is None else found[:, self._encoder.features :]


class Front:
    """An encoder with weights, run by PyTorch in front of kernels.

    Attributes:
        nothing: [B, 0] of the last pass: the features go in as what is appended, whose gradient the kernels tell.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._parameters = list(encoder.parameters())
        self._features: Tensor | None = None
        self.nothing = torch.empty((0, 0))

    def forward(self, obs: Any) -> Tensor:
        """Features [B, F], cut off."""
        with torch.enable_grad():
            self._features = self._encoder(obs)
        self.nothing = torch.empty((self._features.shape[0], 0), dtype=torch.float32)
        return self._features.detach().contiguous()

    def backward(self, gradient: Tensor) -> None:
        """Write the gradient of every weight, from that of the features."""
        assert self._features is not None
        for parameter in self._parameters:
            assert parameter.grad is not None
            parameter.grad.zero_()
        features, self._features = self._features, None
        torch.autograd.backward([features], [gradient], inputs=self._parameters)


class ActorCriticKernel:
    """Policy and value network: two stacks on the same features."""

    def __init__(self, net: ActorCritic, flat: FlatParameters) -> None:
        heads = list(net.policy_head.parts) if type(net.policy_head) is TreeHead else [net.policy_head]
        if not all(type(head) in (DiscreteHead, GaussianHead) for head in heads):
            raise UnknownError
        from steadyrl.kernels import _native

        self._encode, self._flat = net.encoder.forward, flat
        self._value_encoder = net.value_encoder
        features = net.encoder.features
        self._policy = Stack(flat, features, [(net.policy_trunk, linears(net.policy_head))])
        self._value = Stack(flat, features, [(net.value_trunk, [net.value_head])])
        self._both = _native.Mlps([self._policy.mlp, self._value.mlp])
        self._width = self._policy.width
        self._log_std = net.policy_head.log_std if isinstance(net.policy_head, GaussianHead) else None
        self._heads = [_Head.of(head) for head in heads] if isinstance(net.policy_head, TreeHead) else []
        self._front = Front(net.encoder) if net.encoder.learns else None
        self._value_front = None if net.value_encoder is None else Front(net.value_encoder)
        self._seen: tuple[Tensor, Tensor] | None = None

    @property
    def learns_by_torch(self) -> bool:
        """Whether PyTorch runs an encoder in front."""
        return self._front is not None

    def params(self, features: Tensor) -> Params:
        """Parameters of the action distribution."""
        return self._with_std(self._policy.forward(features))

    def values(self, features: Tensor) -> Tensor:
        """[B]."""
        return self._value.forward(features).squeeze(-1)

    def look(self, obs: Any) -> tuple[Params, Tensor]:
        """Both, without a way back."""
        features = self._encode(obs).contiguous()
        if self._value_encoder is not None:
            return self.params(features), self.values(self._value_encoder(obs).contiguous())
        return self.look_into(features, self.room(features.shape[0]))

    def forward(self, obs: Any) -> tuple[Params, Tensor]:
        """Both, with one."""
        if self._front is not None:
            features = self._front.forward(obs)
            seen = features if self._value_front is None else self._value_front.forward(obs)
            self._seen = features, seen
            out = self._policy.forward(self._front.nothing, features, _LEARN)
            return self._with_std(out), self._value.forward(self._front.nothing, seen, _LEARN).squeeze(-1)
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
        if self._heads:
            parts = torch.split_with_sizes(out, [head.width for head in self._heads], dim=-1)
            return tuple(x for part, head in zip(parts, self._heads, strict=True) for x in head.params(part))
        return (out,) if self._log_std is None else (out, self._log_std.detach())

    def backward(self, gradients: Outputs) -> None:
        """Write the gradient of every parameter."""
        *params, values = gradients
        if self._front is not None:
            self._backward_through(self._joined(params), values.unsqueeze(-1))
        else:
            outer = self._joined(params), values.contiguous()
            self._both.backward(self._flat.data, outer, self._flat.grad, _LEARN)
        if self._log_std is not None:
            assert self._log_std.grad is not None
            self._log_std.grad.copy_(params[1])

    def _joined(self, params: Sequence[Tensor]) -> Tensor:
        """The gradient of the policy's output, from those of the distribution's parameters; log_std keep theirs."""
        if not self._heads:
            return params[0].contiguous()
        rest, outer = list(params), []
        for head in self._heads:
            outer.append(rest.pop(0))
            if head.log_std is not None:
                assert head.log_std.grad is not None
                head.log_std.grad.copy_(rest.pop(0))
        return torch.cat(outer, dim=-1)

    def _backward_through(self, params: Tensor, values: Tensor) -> None:
        """Both networks back to their features, and on through the encoders."""
        assert self._front is not None
        assert self._seen is not None
        features, seen = (torch.empty_like(part) for part in self._seen)
        self._policy.backward(params, features)
        self._value.backward(values, seen)
        if self._value_front is None:
            self._front.backward(features + seen)
        else:
            self._front.backward(features)
            self._value_front.backward(seen)

    def input_gradient(self, gradients: Outputs) -> Tensor:
        """There is nothing but the observation."""
        raise TypeError("an actor-critic has no second input")


class _Head(NamedTuple):
    """One head of an action with parts: its place in the output, and what stands beside it."""

    width: int
    log_std: nn.Parameter | None

    @classmethod
    def of(cls, head: nn.Module) -> _Head:
        (layer,) = linears(head)
        return cls(layer.out_features, head.log_std if isinstance(head, GaussianHead) else None)

    def params(self, out: Tensor) -> Params:
        return (out,) if self.log_std is None else (out, self.log_std.detach())


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
