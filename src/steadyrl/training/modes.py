"""PyTorch's modes in which nothing can be learnt."""

from __future__ import annotations

import torch

from steadyrl.errors import UserError


def insist_on_plain_torch() -> None:
    """Raises UserError inside torch.inference_mode or torch.autocast: tensors have no gradient or other types there."""
    for name, on in (
        ("torch.inference_mode", torch.is_inference_mode_enabled()),
        ("torch.autocast", torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")),
    ):
        if on:
            raise UserError(
                f"An agent cannot be made or learn inside {name}.",
                remedy=f"Leave that block first; predict and evaluate need no {name} either.",
                code="torch-mode",
            )
