"""What a network trained by one loss has besides its layers: maybe kernels that run it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Part(nn.Module):
    """A module whose passes kernels may run, on the same parameters in the same memory.

    Where no gradient is recorded, `forward` runs them too: a policy acts, is evaluated and served with the same bits.
    """

    kernel: Any = None  # `native.Kernel`, set by `Trainable`

    @property
    def looks(self) -> bool:
        """Whether a pass is to run on kernels: there are some, and no gradient is recorded."""
        return self.kernel is not None and not torch.is_grad_enabled()

    def __getstate__(self) -> dict[str, Any]:
        """A copy has other parameters, and no kernels until it is given its own."""
        return {name: value for name, value in self.__dict__.items() if name != "kernel"}
