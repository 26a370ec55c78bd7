"""The parameters of a network as views into one buffer, so that clipping, Adam and polyak are one call each."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import torch
from torch import Tensor, nn

from steadyrl import kernels
from steadyrl.errors import UserError

ALIGN = 16  # float32 numbers in 64 bytes
_GRAD = operator.attrgetter("grad")
_OF_THIS_MEMORY = frozenset({"_starts", "_views", "_addresses", "_grads"})


class FlatParameters:
    """Moves the parameters of `module` into one buffer and their gradients into another.

    The parameters stay the module's own `nn.Parameter` objects, with views as their memory: `state_dict`,
    `load_state_dict`, autograd and a kernel all work on the same numbers. Move the module to its device before; clear
    gradients with `zero_grad` of this class, for `nn.Module.zero_grad` drops the views.

    Each parameter starts at a multiple of 64 bytes, as torch places a tensor of its own: the BLAS chooses its code
    by the alignment of its operands, so that a policy loaded into ordinary tensors would otherwise compute other
    bits than the one that was trained.

    A copy, deep or by pickle, is flat too: the copied parameters are views of the copied buffers.

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
        places: dict[nn.Parameter, tuple[dict[str, Any], str]] = {}
        for layer in module.modules():
            for name, p in layer._parameters.items():
                if p is not None:
                    places.setdefault(p, (layer._parameters, name))
        self.parameters = list(places)
        self._owners, self._names = [owner for owner, _ in places.values()], [name for _, name in places.values()]
        kinds = {(p.dtype, p.device) for p in self.parameters}
        if len(kinds) != 1 or next(iter(kinds))[0] != torch.float32:
            found = sorted(f"{dtype} on {device}" for dtype, device in kinds)
            raise ValueError(f"parameters must be float32 on one device, found {found or 'none'}")
        self._sizes = [p.shape for p in self.parameters]
        self.native = native and self.parameters[0].device.type == "cpu" and kernels.available()
        size = sum(map(_padded, self._sizes))
        self.data = torch.zeros(size, dtype=torch.float32, device=self.parameters[0].device)
        self.grad = torch.zeros_like(self.data)
        self._lay_out()

    def _lay_out(self) -> None:
        starts = itertools.accumulate(map(_padded, self._sizes), initial=0)
        self._starts = {id(p): start for p, start in zip(self.parameters, starts, strict=False)}
        self._views = self._split(self.data), self._split(self.grad)
        self._addresses = [view.data_ptr() for view in self._views[0]]
        self._take_back()

    def __getstate__(self) -> dict[str, Any]:
        """Without what belongs to the memory of this one."""
        return {name: value for name, value in self.__dict__.items() if name not in _OF_THIS_MEMORY}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The copied parameters have memory of their own, and become views again."""
        self.__dict__.update(state)
        self._lay_out()

    def place(self, layer: nn.Linear | nn.LayerNorm) -> tuple[int, int, int]:
        """Where a layer's weight (a norm's gain) and bias start in the buffer, and its width."""
        return self._starts[id(layer.weight)], self._starts[id(layer.bias)], layer.bias.numel()

    def _split(self, buffer: Tensor) -> list[Tensor]:
        parts = torch.split_with_sizes(buffer, [*map(_padded, self._sizes)])
        return [part[: size.numel()].view(size) for part, size in zip(parts, self._sizes, strict=True)]

    def zero_grad(self) -> None:
        """Set every gradient to 0, in place."""
        self.grad.zero_()

    def intact(self) -> bool:
        """Whether the module still has these parameters, and they and their gradients are views of the buffers."""
        try:  # no loop in Python: asked before every single prediction
            there = [*map(Tensor.data_ptr, map(operator.getitem, self._owners, self._names))]
        except KeyError:  # as pruning or a parametrisation leaves it
            return False
        if there != self._addresses:
            return False
        return all(map(operator.is_, map(_GRAD, self.parameters), self._grads))

    def regain(self) -> None:
        """Take back what went elsewhere, with the numbers it has now, as float32 on the buffers' device.

        `p.data = x`, `load_state_dict(..., assign=True)`, `module.to(...)` and `module.zero_grad()` put other memory in
        place of the views; an optimiser and kernels would work on without ever being seen again.

        Raises:
            ValueError: a parameter was given another shape.
            UserError: a layer has lost a parameter.
        """
        if not self.intact():
            self._take_back()

    def _take_back(self) -> None:
        datas, grads = self._views
        self._grads = [grad.detach() for grad in grads]  # `module.to` changes these objects
        for owner, name, p, data, grad in zip(
            self._owners, self._names, self.parameters, datas, self._grads, strict=True
        ):
            given = owner.get(name)
            if given is None:
                raise UserError(
                    f"A layer of the network no longer has its parameter '{name}': it was pruned or parametrised.",
                    remedy="Make that permanent first: torch.nn.utils.prune.remove, remove_parametrizations.",
                    code="no-parameter",
                )
            if given.shape != data.shape:
                raise ValueError(f"the parameter {name} is {[*given.shape]} now, but it was made as {[*data.shape]}")
            if given.data_ptr() != data.data_ptr():
                data.copy_(given.detach())
            p.grad = None
            p.data, p.grad = data, grad
            owner[name] = p


def _padded(size: torch.Size) -> int:
    """Numbers that a parameter takes up, with what fills its last 64 bytes."""
    return -(-size.numel() // ALIGN) * ALIGN
