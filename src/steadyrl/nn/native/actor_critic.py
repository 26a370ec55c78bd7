"""Policy and value network: two stacks, whose passes the kernels make in one call where both see the same features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from steadyrl.nn.distributions import Params
from steadyrl.nn.flat import FlatParameters
from steadyrl.nn.gradient import Outputs
from steadyrl.nn.heads import DiscreteHead, GaussianHead, TreeHead
from steadyrl.nn.native.front import Front
from steadyrl.nn.native.stack import LEARN, LOOK, Stack, UnknownError, linears
from steadyrl.nn.networks import ActorCritic


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
            out = self._policy.forward(self._front.nothing, features, LEARN)
            return self._with_std(out), self._value.forward(self._front.nothing, seen, LEARN).squeeze(-1)
        features = self._encode(obs).contiguous()
        return self.look_into(features, self.room(features.shape[0]), LEARN)

    def room(self, rows: int) -> tuple[Tensor, Tensor]:
        """Memory for the outputs of so many rows."""
        return torch.empty((rows, self._width), dtype=torch.float32), torch.empty(rows, dtype=torch.float32)

    def look_into(self, features: Any, outputs: tuple[Tensor, Tensor], slot: int = LOOK) -> tuple[Params, Tensor]:
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
            self._both.backward(self._flat.data, outer, self._flat.grad, LEARN)
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
