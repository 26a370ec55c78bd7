"""Metrics of an update: they stay where they are until a row of them is written."""

from __future__ import annotations

import torch
from torch import Tensor

Metrics = dict[str, Tensor | float]


def mean_metrics(rows: list[dict[str, Tensor]]) -> Metrics:
    """Mean of each metric over the gradient steps that have it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: torch.stack([row[name] for row in rows if name in row]).mean() for name in names}
