"""How many threads compute: part of what decides the bits where PyTorch does, and not where kernels do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from steadyrl import kernels


@contextmanager
def computing_threads(count: int | None, *, native: bool, torch_too: bool = False) -> Iterator[None]:
    """Networks compute with this many threads inside, kernels and torch with as many as before afterwards.

    Args:
        count: None is every core for kernels, 1 for torch.
        native: Whether kernels run networks; torch then has one thread, for two pools stall each other.
        torch_too: Whether torch runs some of them all the same, and has its threads.
    """
    wanted = 1 if native and not torch_too else count or 1
    kept, before = kernels.threads() if native else None, torch.get_num_threads()
    if native:
        kernels.set_threads(count or kernels.usable_cores())
    if before != wanted:
        torch.set_num_threads(wanted)
    try:
        yield
    finally:
        if kept is not None:
            kernels.set_threads(kept)
        if before != wanted:
            torch.set_num_threads(before)
