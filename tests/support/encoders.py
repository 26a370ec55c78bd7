"""An encoder of one's own, for the tests."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from steadyrl.spaces import Leaf


class Brightness(nn.Module):
    """The mean of an image, through one layer."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        self.features = 3
        self.layer = nn.Linear(1, 3)

    def forward(self, obs: Tensor) -> Tensor:
        """[B, 3]."""
        mean = obs.to(torch.float32).flatten(1).mean(dim=1, keepdim=True) / 255
        found: Tensor = self.layer(mean).tanh()
        return found
