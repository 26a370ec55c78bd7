"""The process-wide generators of Python, NumPy and torch: kept, and put back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from steadyrl.envs.snapshots.generators import insist_on_position
from steadyrl.seeding import Stream


def generators_state() -> dict[str, Any]:
    """Where they stand, as JSON values and arrays."""
    version, words, gauss = random.getstate()
    name, key, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": {"version": version, "words": np.array(words, dtype=np.uint32), "gauss": gauss},
        "numpy": {
            "name": name,
            "key": np.array(key, dtype=np.uint32),
            "position": int(position),
            "has_gauss": int(has_gauss),
            "cached": float(cached),
        },
        "torch": torch.get_rng_state().numpy().copy(),
    }


def restore_generators(state: dict[str, Any]) -> None:
    """Put back what `generators_state` gave."""
    python, numpy = state["python"], state["numpy"]
    if not isinstance(python["gauss"], float | None):  # which Python takes, and gives to whoever draws next
        raise TypeError("'generators/python/gauss' is no number")
    insist_on_position(numpy["name"], {"state": {"pos": numpy["position"]}})
    random.setstate((python["version"], tuple(int(word) for word in python["words"]), python["gauss"]))
    np.random.set_state((numpy["name"], numpy["key"], numpy["position"], numpy["has_gauss"], numpy["cached"]))
    torch.set_rng_state(torch.from_numpy(np.array(state["torch"])))


@contextmanager
def global_generators_kept() -> Iterator[None]:
    """They are as before afterwards, whatever is drawn inside."""
    python, numpy, torch_state = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(torch_state)


@contextmanager
def generators_of_run(stream: Stream) -> Iterator[None]:
    """Seeded for a run, so that environments which draw on them repeat; as before afterwards.

    Args:
        stream: Whence the seeds come.
    """
    with global_generators_kept():
        random.seed(stream.seed())
        np.random.seed(stream.seed())
        torch.manual_seed(stream.seed())
        yield
