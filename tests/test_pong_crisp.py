"""The wrapper of benchmarks that makes small pictures of Pong."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="this copy of the tests has no benchmarks")


def test_a_single_pixel_that_is_not_background_marks_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    module: Any = importlib.import_module("pong_crisp")
    picture = np.full((84, 84), module.BACKGROUND, np.uint8)
    picture[0, 0] = module.BACKGROUND + 8  # a shade of the field
    picture[3, 5] = 236
    picture[83, 82] = 20
    seen = module.Crisp(gym.Env()).observation(picture)
    assert (seen.shape, seen.dtype) == ((42, 42), np.uint8)
    assert [tuple(place) for place in np.argwhere(seen == 255)] == [(1, 2), (41, 41)]
    assert int((seen == 0).sum()) == 42 * 42 - 2
