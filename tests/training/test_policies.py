"""Spaces in words."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from steadyrl.spaces import ActionSpec, ObsSpec
from steadyrl.training.policies import shown_action, shown_obs

GRID = spaces.MultiDiscrete(np.array([[3, 4]]), start=np.array([[0, 1]]))
UNEVEN = spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, np.inf]), dtype=np.float64)


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (spaces.Box(-1, 1, (2, 3), np.float64), "Box((2, 3), float64)"),
        (spaces.Discrete(5), "Discrete(5)"),
        (spaces.Discrete(5, start=-2), "Discrete(5, start=-2)"),
        (spaces.MultiDiscrete([3, 4]), "MultiDiscrete([3 4])"),
        (
            spaces.MultiDiscrete(np.array([[3, 4]]), start=np.array([[0, 1]])),
            "MultiDiscrete([3 4], start=[0 1], shape=(1, 2))",
        ),
        (spaces.MultiDiscrete([2] * 20), "MultiDiscrete([2 2 2 2 2 2 2 2 2 2 2 2 ...])"),
        (spaces.MultiBinary(3), "MultiBinary(3)"),
        (spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(0, 1, (1,))}), None),
    ],
)
def test_observations(space: Any, text: str | None) -> None:
    expected = text or "Dict('a': Box((1,), float32), 'b': Discrete(2))"
    shown = shown_obs(ObsSpec.of(space))
    assert shown == expected or (text is None and shown == "Dict('b': Discrete(2), 'a': Box((1,), float32))")


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (spaces.Box(-2, 2, (1,), np.float32), "Box(-2.0, 2.0, (1,), float32)"),
        (
            spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, np.inf]), dtype=np.float64),
            "Box([-1.0 0.0], [1.0 inf], (2,), float64)",
        ),
        (spaces.Discrete(3, start=1), "Discrete(3, start=1)"),
        (spaces.MultiBinary(2), "MultiBinary(2)"),
    ],
)
def test_actions(space: Any, text: str) -> None:
    assert shown_action(ActionSpec.of(space)) == text
