"""Parts that several losses share; all functions are pure."""

from __future__ import annotations

from torch import Tensor


def normalise_advantages(advantages: Tensor) -> Tensor:
    """Mean 0 and standard deviation 1 (unbiased, + 1e-8) over the minibatch, [B]; a minibatch of 1 is left alone."""
    if advantages.shape[0] < 2:
        return advantages
    return (advantages - advantages.mean()) / (advantages.std() + 1e-8)
