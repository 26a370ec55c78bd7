"""The parameters of a network as views into one buffer, so that clipping, Adam and polyak are one call each."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from steadyrl import kernels

ALIGN = 16  # float32 numbers in 64 bytes


class FlatParameters:
    """Moves the parameters of `module` into one buffer and their gradients into another.

    The parameters stay the module's own `nn.Parameter` objects, with views as their memory: `state_dict`,
    `load_state_dict`, autograd and a kernel all work on the same numbers. Move the module to its device before; clear
    gradients with `zero_grad` of this class, for `nn.Module.zero_grad` drops the views.

    Each parameter starts at a multiple of 64 bytes, as torch places a tensor of its own: the BLAS chooses its code
    by the alignment of its operands, so that a policy loaded into ordinary tensors would otherwise compute other
    bits than the one that was trained.

    Args:
        module: Its parameters move.
        native: Whether CPU kernels may work on them; they do where they are there.

    Attributes:
        native: Whether they do.
        parameters: The module's, in order.
        data: [P], every parameter in the order of `module.parameters()`, with zeros between them.
        grad: [P], their gradients; autograd accumulates into it.

    Raises:
        ValueError: there are no parameters, or they are not float32 on one device.
    """

    def __init__(self, module: nn.Module, *, native: bool = False) -> None:
        self.parameters = list(module.parameters())
        kinds = {(p.dtype, p.device) for p in self.parameters}
        if len(kinds) != 1 or next(iter(kinds))[0] != torch.float32:
            found = sorted(f"{dtype} on {device}" for dtype, device in kinds)
            raise ValueError(f"parameters must be float32 on one device, found {found or 'none'}")
        self._padded = [-(-p.numel() // ALIGN) * ALIGN for p in self.parameters]
        self.native = native and self.parameters[0].device.type == "cpu" and kernels.available()
        starts = itertools.accumulate(self._padded, initial=0)
        self._starts = {id(p): start for p, start in zip(self.parameters, starts, strict=False)}
        self.data = torch.zeros(sum(self._padded), device=self.parameters[0].device)
        self.grad = torch.zeros_like(self.data)
        for p, data, grad in zip(self.parameters, self._views(self.data), self._views(self.grad), strict=True):
            p.data = data.copy_(p.data)
            p.grad = grad

    def place(self, layer: nn.Linear) -> tuple[int, int, int]:
        """Where a layer's weight and bias start in the buffer, and its width."""
        return self._starts[id(layer.weight)], self._starts[id(layer.bias)], layer.out_features

    def _views(self, buffer: Tensor) -> list[Tensor]:
        parts = torch.split_with_sizes(buffer, self._padded)
        return [part[: p.numel()].view(p.shape) for part, p in zip(parts, self.parameters, strict=True)]

    def zero_grad(self) -> None:
        """Set every gradient to 0, in place."""
        self.grad.zero_()

    def intact(self) -> bool:
        """Whether parameters and gradients are still the views made at construction."""
        rows = zip(self.parameters, self._views(self.data), self._views(self.grad), strict=True)
        return all(_same_memory(p, data) and _same_memory(p.grad, grad) for p, data, grad in rows)


def _same_memory(tensor: Tensor | None, view: Tensor) -> bool:
    return tensor is not None and tensor.data_ptr() == view.data_ptr() and tensor.shape == view.shape
