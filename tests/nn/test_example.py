"""Observations to try networks with: of every kind of leaf, inside its space, with numbers that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs

from steadyrl.nn.example import example
from steadyrl.spaces import ObsSpec, Reading

KINDS: dict[str, tuple[gs.Space[Any], list[Any]]] = {
    "box": (gs.Box(-1.0, 1.0, (2,)), [[-0.75, -0.5], [-0.25, 0.0]]),
    "scalar": (gs.Box(-1.0, 1.0, ()), [-0.75, -0.5]),
    "image": (gs.Box(0, 255, (1, 2), np.uint8), [[[0, 1]], [[2, 3]]]),
    "discrete": (gs.Discrete(3, start=5), [[0], [1]]),
    "multidiscrete": (gs.MultiDiscrete([2, 5]), [[0, 1], [0, 3]]),
    "multibinary": (gs.MultiBinary(3), [[0, 1, 0], [1, 0, 1]]),
    "text": (gs.Text(3, charset="ab"), [[1, 2, 1], [2, 1, 0]]),
    "codes": (gs.Sequence(gs.Discrete(4, start=2)), [[1, 2, 3], [4, 1, 0]]),
    "sequence": (
        gs.Sequence(gs.Box(-1.0, 1.0, (1,))),
        [[[-0.75, 1], [-0.25, 1], [0.25, 1]], [[0.75, 1], [-0.5, 1], [0, 0]]],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_two(kind: str) -> None:
    space, wanted = KINDS[kind]
    (leaf,) = ObsSpec.of(space, Reading(sequence_length=3)).leaves
    found = example(leaf)
    assert found.dtype == torch.from_numpy(np.zeros(0, leaf.stored_dtype)).dtype
    assert found.shape == (2, *leaf.stored_shape)
    assert found.tolist() == wanted
    assert torch.equal(example(leaf), found)
