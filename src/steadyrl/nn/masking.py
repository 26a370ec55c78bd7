"""Logits and action values of actions that are not allowed."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from steadyrl.spaces.masks import MASK

# In place of what a network says of an action that is not allowed. Its probability is exactly 0, also beside logits of
# any usual size, and the products with that 0 in entropies and losses stay 0, which they would not with -infinity.
BLOCKED = -1e30


def masked(params: tuple[Tensor, ...], obs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    """Parameters of the distribution over what the observations' masks allow; as they are where there are none.

    Args:
        params: Logits or action values [B, width] first.
        obs: Leaves [B, ...], among which there may be the masks [B, width].
    """
    mask = obs.get(MASK)
    return params if mask is None else (params[0].masked_fill(mask <= 0, BLOCKED), *params[1:])


def mask_of(obs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The masks alone, for a loss that needs nothing else of the observations."""
    return {MASK: obs[MASK]} if MASK in obs else {}


def allowed(params: tuple[Tensor, ...]) -> Tensor:
    """Which entries of masked parameters may be chosen, bool [B, width]."""
    return params[0] > BLOCKED / 2


def choices(obs: Mapping[str, Tensor]) -> Tensor | None:
    """How many actions each mask allows, [B]; None where there are no masks."""
    return None if MASK not in obs else (obs[MASK] > 0).sum(dim=-1).to(torch.float32)
