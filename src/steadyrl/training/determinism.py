"""What torch needs so that a GPU repeats: set while an agent computes, and put back afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from steadyrl.errors import UserError

WORKSPACE, FIXED = "CUBLAS_WORKSPACE_CONFIG", (":4096:8", ":16:8")  # the two with which cuBLAS repeats


@contextmanager
def repeatable(wanted: bool) -> Iterator[None]:
    """Inside, torch takes only operations that repeat to the bit, and fails by name where it has none.

    Source: "Reproducibility" in PyTorch's notes, and "Results reproducibility" in NVIDIA's documentation of cuBLAS,
    whose workspace takes about 24 MiB of the GPU's memory more with `:4096:8`.

    Args:
        wanted: Nothing is touched without.

    Raises:
        UserError: the environment asks for a workspace with which cuBLAS does not repeat.
    """
    if not wanted:
        yield
        return
    found = os.environ.get(WORKSPACE)
    if found is not None and found not in FIXED:
        raise UserError(
            f"{WORKSPACE} is {found!r}, with which cuBLAS may give other bits each time.",
            remedy=f"Unset it, or set it to {FIXED[0]}; or leave --deterministic out.",
            code="bad-value",
        )
    cudnn = torch.backends.cudnn
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    flags = cudnn.deterministic, cudnn.benchmark
    os.environ.setdefault(WORKSPACE, FIXED[0])
    torch.use_deterministic_algorithms(True)
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = flags
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        if found is None:
            os.environ.pop(WORKSPACE, None)
