"""Networks of one stack: critics, and actors without a value network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from steadyrl.nn.gradient import Outputs
from steadyrl.nn.native.front import Front
from steadyrl.nn.native.stack import LEARN, Stack


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
            return self._split(self._stack.forward(self._encoder(obs), appended, LEARN))
        features = self._front.forward(obs)
        self._appended = features if appended is None else torch.cat([features, appended], dim=-1)
        return self._split(self._stack.forward(self._front.nothing, self._appended, LEARN))

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
