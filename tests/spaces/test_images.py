"""Which uint8 arrays are images, and what their axes are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces as gs

from steadyrl.errors import UserError
from steadyrl.spaces import ObsSpec, Reading
from steadyrl.spaces.images import image_of, layout_of


@pytest.mark.parametrize(
    ("shape", "layout", "sizes"),
    [
        ((84, 84), "hw", (1, 84, 84)),
        ((210, 160, 3), "hwc", (3, 210, 160)),
        ((3, 960, 720), "chw", (3, 960, 720)),
        ((4, 84, 84), "chw", (4, 84, 84)),
        ((84, 84, 1), "hwc", (1, 84, 84)),
        ((7, 7, 3), "hwc", (3, 7, 7)),
        ((4, 84, 84, 1), "shwc", (4, 84, 84)),
        ((4, 210, 160, 3), "shwc", (12, 210, 160)),
        ((4, 3, 96, 64), "schw", (12, 96, 64)),
        ((64, 8, 9), "hwc", (9, 64, 8)),
        ((7, 7, 20), "hwc", (20, 7, 7)),
        ((8, 7, 7), "chw", (8, 7, 7)),
        ((2, 7, 7, 20), "shwc", (40, 7, 7)),
    ],
    ids=str,
)
def test_the_layout_follows_from_the_shape(shape: tuple[int, ...], layout: str, sizes: tuple[int, int, int]) -> None:
    assert layout_of(shape, "auto") == layout
    assert image_of(shape, layout) == sizes
    (leaf,) = ObsSpec.of(gs.Box(0, 255, shape, np.uint8)).leaves
    assert (leaf.kind, leaf.layout, leaf.scale, leaf.stored_shape) == ("image", layout, 1 / 255, shape)


def test_a_layout_that_cannot_be_told_is_declared() -> None:
    space = gs.Dict({"eye": gs.Box(0, 255, (5, 9, 5), np.uint8)})
    with pytest.raises(UserError, match="'eye'") as caught:
        ObsSpec.of(space, Reading(image_layout="auto"))
    assert caught.value.code == "image-layout"
    assert "--image-layout" in (caught.value.remedy or "")
    for declared in ("hwc", "chw"):
        assert ObsSpec.of(space, Reading(image_layout=declared)).leaves[0].layout == declared


def test_a_layout_is_declared_of_one_image_alone() -> None:
    cube, eye = gs.Box(0, 255, (8, 8, 8), np.uint8), gs.Box(0, 255, (84, 84, 3), np.uint8)
    space = gs.Dict({"cube": cube, "eye": eye, "arm": gs.Box(0, 1, (2,))})
    with pytest.raises(UserError) as caught:
        ObsSpec.of(space, Reading(image_layout="auto"))
    assert "image_layout={'cube': 'hwc'}" in (caught.value.remedy or "")
    leaves = {leaf.path: leaf for leaf in ObsSpec.of(space, Reading(image_layout={"cube": "chw"})).leaves}
    assert (leaves["cube"].layout, leaves["eye"].layout) == ("chw", "hwc")
    with pytest.raises(
        UserError, match="image_layout has 'arm', but the observation space has no such image"
    ) as caught:
        ObsSpec.of(space, Reading(image_layout={"arm": "chw"}))
    assert caught.value.remedy == "Its images are 'cube', 'eye'."


def test_a_declared_layout_is_taken() -> None:
    assert layout_of((84, 84, 4), "chw") == "chw"
    assert layout_of((4, 84, 84, 3), "chw") == "schw"
    assert layout_of((84, 84), "chw") == "hw"


@pytest.mark.parametrize(
    "space",
    [
        gs.Box(0, 255, (128,), np.uint8),
        gs.Box(0, 1, (8, 8), np.uint8),
        gs.Box(0, 255, (8, 8), np.float32),
        gs.Box(0, 255, (2, 2, 2, 2, 2), np.uint8),
        gs.Box(0, 255, (8, 8), np.int32),
    ],
    ids=str,
)
def test_other_boxes_are_numbers(space: gs.Box) -> None:
    (leaf,) = ObsSpec.of(space).leaves
    assert (leaf.kind, leaf.scale, leaf.stored_dtype) == ("box", 1.0, np.float32)


@pytest.mark.parametrize("pixel", [-1, 256, 0.5, np.nan])
def test_what_is_no_pixel_is_refused(pixel: float) -> None:
    with pytest.raises(UserError, match="from 0 to 255"):
        ObsSpec.of(gs.Box(0, 255, (2, 2), np.uint8)).store(np.full((2, 2), pixel), batch=False)


def test_pixels_of_another_type_are_the_same_pixels() -> None:
    spec = ObsSpec.of(gs.Box(0, 255, (1, 2), np.uint8))
    pixels: Any = [[0, 255]]
    for dtype in (np.uint8, np.int64, np.float32):
        stored = spec.store(np.array(pixels, dtype=dtype), batch=False)[""]
        assert stored.dtype == np.uint8
        assert stored.tolist() == [pixels]


def test_an_image_of_before_images_had_a_kind_is_one() -> None:
    old = {"path": "", "kind": "box", "shape": [5, 4, 3], "dtype": "uint8", "nvec": [], "start": [], "scale": 1 / 255}
    assert ObsSpec.from_json([old]).to_json() == ObsSpec.of(gs.Box(0, 255, (5, 4, 3), np.uint8)).to_json()
