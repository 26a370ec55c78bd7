"""Multilayer perceptrons on the kernels, and which of PyTorch's they know."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from steadyrl.nn.flat import FlatParameters
from steadyrl.nn.init import BlankLinear
from steadyrl.nn.networks import ACTIVATIONS, NORM_EPS

LOOK, LEARN = 0, 1  # which activations a pass keeps: a look without gradient leaves those of a learning pass alone

Member = tuple[nn.Sequential, Sequence[nn.Linear]]  # hidden layers with their activations, and the heads on the last


class UnknownError(Exception):
    """The kernels do not know such a network."""


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

    def forward(self, x: Tensor, x2: Tensor | None = None, slot: int = LOOK) -> Tensor:
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
        self.mlp.backward(self._flat.data, gradient.contiguous(), self._flat.grad, LEARN, inputs)

    def input_gradient(self, gradient: Tensor, like: Tensor) -> Tensor:
        """The gradient of what was appended."""
        found = torch.empty_like(like, memory_format=torch.contiguous_format)
        self.mlp.backward(self._flat.data, gradient.contiguous(), None, LEARN, found)
        return found


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
