"""The layout of `FlatParameters`, said a second time."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def packed(parts: Iterable[Tensor]) -> Tensor:
    """Flat parts one after the other, each filled up with zeros to a multiple of 16 numbers."""
    rows = [torch.nn.functional.pad(part.detach().reshape(-1), (0, -part.numel() % 16)) for part in parts]
    return torch.cat(rows)
