"""Observations to try a network with, as they are stored."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from steadyrl.spaces import Leaf


def example(leaf: Leaf, count: int = 2) -> Tensor:
    """So many stored observations [count, ...] of a leaf, whose numbers differ and are of its space.

    Of texts and sequences the first one has as many entries as are kept, and the others half as many. What an own
    encoder's class makes arrays of is unknown: 1 may be a number, a flag or the place of a vector.
    """
    shape, dtype = (count, *leaf.stored_shape), getattr(torch, leaf.stored_dtype.__name__)
    numbers = torch.arange(math.prod(shape)).reshape(shape)
    if leaf.kind == "own":
        return torch.ones(shape, dtype=dtype)
    if leaf.kind == "image":
        return (numbers % 251).to(dtype)
    if leaf.kind == "multibinary":
        return (numbers % 2).to(dtype)
    if leaf.is_counted:
        return numbers % torch.tensor(leaf.nvec)
    if leaf.kind in ("text", "codes"):
        return torch.where(_there(shape), 1 + numbers % leaf.nvec[0], 0)
    found = ((numbers % 7 - 3) / 4).to(dtype)
    if leaf.kind == "sequence":
        there = _there(shape[:2])
        found = torch.where(there[..., None], found, 0.0)
        found[..., -1] = there
    return found


def _there(shape: tuple[int, ...]) -> Tensor:
    """Which entries of some sequences are there, [count, L]."""
    there = torch.ones(shape, dtype=torch.bool)
    there[1:, (shape[1] + 1) // 2 :] = False
    return there
