"""Metrics of an update: they stay where they are until a row of them is written."""

from __future__ import annotations

import torch
from torch import Tensor

from steadyrl.nn.gradient import Scalars

Metrics = dict[str, Tensor | float]


def mean_metrics(rows: list[dict[str, Tensor]]) -> Metrics:
    """Mean of each metric over the gradient steps that have it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: torch.stack([row[name] for row in rows if name in row]).mean() for name in names}


def mean_scalars(rows: list[Scalars]) -> Metrics:
    """The same for rows that all have the same metrics, each in one tensor."""
    if not rows:
        return {}
    return dict(zip(rows[0], torch.stack([row.block for row in rows], dim=1).mean(dim=1).unbind(), strict=True))
