"""A network as its two passes: outputs forward, and their gradients back into one flat buffer."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from steadyrl.nn.flat import FlatParameters
from steadyrl.nn.gradient import Outputs
from steadyrl.nn.heads import SDEHead
from steadyrl.nn.native.forms import kernel_for
from steadyrl.nn.part import Part
from steadyrl.nn.q_networks import QNetwork
from steadyrl.nn.recurrent import RecurrentActorCritic


class Trainable:
    """A module whose parameters are views of one buffer.

    An update reads `outputs = net.forward(obs)`, a loss with the gradient by these outputs (`gradient.with_gradient`),
    `net.backward(gradients)`, and an optimiser's step on `net.flat`. Kernels run both passes where they know the
    module, autograd elsewhere.

    Args:
        module: On its device; its parameters move into the buffer.
        native: Whether kernels may run it.
    """

    def __init__(self, module: Part, *, native: bool) -> None:
        self.module = module
        self.flat = FlatParameters(module, native=native)
        self._start()

    def _start(self) -> None:
        self.module.kernel = self._kernel = kernel_for(self.module, self.flat)
        self._outputs: Outputs = ()
        self._input: Tensor | None = None
        self._learnt = [parameter for parameter in self.flat.parameters if parameter.requires_grad]

    def __getstate__(self) -> dict[str, Any]:
        """What a copy has of its own: kernels and a way back are made anew."""
        return {"module": self.module, "flat": self.flat}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """See `__getstate__`."""
        self.module, self.flat = state["module"], state["flat"]
        self._start()

    @property
    def on_kernels(self) -> bool:
        """Whether kernels run both passes, all of them."""
        return self._kernel is not None and not self._kernel.learns_by_torch

    @property
    def encodes_by_torch(self) -> bool:
        """Whether kernels run both passes but for the encoder."""
        return self._kernel is not None and self._kernel.learns_by_torch

    @property
    def left_to_torch(self) -> str:
        """What kernels do not run of it, in words; empty where they run all."""
        name = type(self.module).__name__
        if self.on_kernels:
            return ""
        if self.encodes_by_torch:
            return f"the encoder of the {name}, which has weights: images, embeddings, sequences"
        if isinstance(self.module, RecurrentActorCritic):
            return "the recurrent networks, which they lack"
        parts = list(self.module.modules())
        if any(isinstance(part, SDEHead) for part in parts):
            return f"the {name}, since they lack gSDE"
        if any(isinstance(part, QNetwork) and part.value_head is not None for part in parts):
            return f"the {name}, since they lack dueling heads"
        return f"the {name}, parts of which they lack"

    def evaluate(self, *inputs: Any) -> Outputs:
        """The module's outputs, flat, without a way back."""
        if self._kernel is not None:
            return flatten(self._kernel.look(*inputs))
        with torch.no_grad():
            return flatten(self.module(*inputs))

    def forward(self, *inputs: Any) -> Outputs:
        """The module's outputs, flat; the next `backward` or `input_gradient` belongs to them."""
        if self._kernel is not None:
            return flatten(self._kernel.forward(*inputs))
        *rest, last = inputs
        if isinstance(last, Tensor):
            last = self._input = last.detach().requires_grad_()
        with torch.enable_grad():
            self._outputs = flatten(self.module(*rest, last))
        return self._outputs

    def backward(self, gradients: Outputs) -> None:
        """Write the gradient of every parameter into `flat.grad`, from those of the outputs."""
        if self._kernel is not None:
            self._kernel.backward(gradients)
            return
        self.flat.zero_grad()
        outputs, found = self._differentiable(gradients)
        torch.autograd.backward(outputs, found, inputs=self._learnt)

    def input_gradient(self, gradients: Outputs) -> Tensor:
        """The gradient of the last input, a tensor (the critics' actions), from those of the outputs."""
        if self._kernel is not None:
            return self._kernel.input_gradient(gradients)
        assert self._input is not None
        outputs, found = self._differentiable(gradients)
        (gradient,) = torch.autograd.grad(outputs, self._input, found)
        return gradient

    def target(self) -> Trainable:
        """A copy that no gradient reaches."""
        return Trainable(copy.deepcopy(self.module).requires_grad_(False), native=self.flat.native)

    def _differentiable(self, gradients: Outputs) -> tuple[list[Tensor], list[Tensor]]:
        pairs = [(out, grad) for out, grad in zip(self._outputs, gradients, strict=True) if out.requires_grad]
        self._outputs = ()
        return [out for out, _ in pairs], [grad for _, grad in pairs]


def flatten(outputs: Any) -> Outputs:
    """A tensor, or tuples of tensors within tuples, as one tuple."""
    if isinstance(outputs, Tensor):
        return (outputs,)
    found: list[Tensor] = []
    for part in outputs:
        if isinstance(part, Tensor):
            found.append(part)
        else:
            found += flatten(part)
    return tuple(found)
