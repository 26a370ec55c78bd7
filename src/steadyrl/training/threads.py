"""How many threads compute: part of what decides the bits where PyTorch does, and not where kernels do."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from steadyrl import kernels


@contextmanager
def computing_threads(count: int | None, *, native: bool) -> Iterator[None]:
    """Networks compute with this many threads inside, torch with as many as before afterwards.

    Args:
        count: None is every core for kernels, 1 for torch.
        native: Whether kernels run the networks; torch then has one thread, for two pools stall each other.
    """
    if native:
        kernels.set_threads(count or usable_cores())
    wanted = 1 if native else count or 1
    before = torch.get_num_threads()
    if before == wanted:
        yield
        return
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
