"""Encoders with weights, which kernels do not run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from steadyrl.nn.encoders import Encoder


class Front:
    """An encoder with weights, run by PyTorch in front of kernels.

    Attributes:
        nothing: [B, 0] of the last pass: the features go in as what is appended, whose gradient the kernels tell.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._parameters = list(encoder.parameters())
        self._learnt = [parameter for parameter in self._parameters if parameter.requires_grad]
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
        if self._learnt:  # an encoder of the user's may be frozen
            torch.autograd.backward([features], [gradient], inputs=self._learnt)
