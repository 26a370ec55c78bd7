"""Images: what the axes of a uint8 array mean."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from gymnasium import spaces as gs

from steadyrl.errors import UserError

ImageLayout = Literal["auto", "hwc", "chw", "any"]
LAYOUTS = {2: ("hw",), 3: ("hwc", "chw"), 4: ("shwc", "schw")}  # s: frames, the oldest first


class Image(NamedTuple):
    """Sizes of what a network sees; `channels` counts those of all frames."""

    channels: int
    height: int
    width: int


def is_image(space: gs.Box) -> bool:
    """Whether a Box holds pixels: uint8, two to four axes, the bounds 0 and 255."""
    pixels = str(space.dtype) == "uint8" and len(space.shape) in LAYOUTS
    return pixels and bool((space.low == 0).all() and (space.high == 255).all()) and 0 not in space.shape


def image_of(shape: tuple[int, ...], layout: str) -> Image:
    """Sizes of an image of this shape and layout, one of `LAYOUTS`."""
    sizes = dict(zip(layout, shape, strict=True))
    return Image(sizes.get("s", 1) * sizes.get("c", 1), sizes["h"], sizes["w"])


def channels_last(first: int, middle: int, last: int) -> bool | None:
    """Whether the last of three axes holds the channels, or the first; None where it cannot be told.

    Two neighbours of the same size are the sides of a square, as in the planes of a board (8, 8, 17); of other images
    the smaller end holds the channels.
    """
    if first == last:
        return None
    if middle in (first, last):
        return middle == first
    return last < first


def layout_of(shape: tuple[int, ...], wanted: ImageLayout, path: str = "") -> str:
    """The layout of an image of this shape.

    Where it is not declared, `channels_last` tells it; in an array of four axes the first one counts frames, as
    `gymnasium.wrappers.FrameStackObservation` stacks them.

    Args:
        shape: Two, three or four axes.
        wanted: `hwc` or `chw` where it is declared; `any` is `auto`, but takes `hwc` where that cannot tell.
        path: Of the leaf, for the error.

    Raises:
        UserError: it cannot be told.
    """
    if len(shape) == 2:
        return "hw"
    frames, last = "s" * (len(shape) - 3), channels_last(*shape[-3:])
    if wanted in ("hwc", "chw"):
        return frames + wanted
    if last is None and wanted == "any":
        return frames + "hwc"
    if last is None:
        where = f" at '{path}'" if path else ""
        raise UserError(
            f"The image{where} has the shape {shape}, of which it cannot be told whether channels come first or last.",
            remedy="Declare it: image_layout='hwc' (--image-layout hwc) for channels last, 'chw' for channels first"
            + (f", or of this one alone, image_layout={{{path!r}: 'hwc'}}." if path else "."),
            code="image-layout",
        )
    return frames + ("hwc" if last else "chw")


def shown_image(shape: tuple[int, ...], layout: str) -> str:
    """An image in words, such as `84 x 84 with 4 channels (chw)`."""
    image = image_of(shape, layout)
    frames = f" in {shape[0]} frames" if layout.startswith("s") else ""
    channels = "1 channel" if image.channels == 1 else f"{image.channels} channels"
    return f"{image.height} x {image.width} with {channels}{frames} ({layout})"


def checked_layout(shape: Any, layout: Any) -> bool:
    """Whether a stored description of an image fits together."""
    return layout in LAYOUTS.get(len(shape), ()) and 0 not in shape
