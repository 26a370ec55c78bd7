"""What becomes of each leaf before the hidden layers: widths and numbers of weights; no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from steadyrl.spaces.images import Image, image_of, shown_image
from steadyrl.spaces.leaf import Leaf

Cnn = Literal["nature", "impala", "none"]
Way = Literal["as it is", "one-hot", "embedded", "pooled", "pooled and embedded", "nature", "small", "impala", "own"]

EMBEDDING = 64  # numbers that stand for one of many values, and for an entry of a sequence
NATURE_LEAST = 36  # pixels of a side, below which nothing is left for the third layer
IMPALA_CHANNELS = (16, 32, 32)
OUTPUTS: dict[str, int] = {"nature": 512, "small": 256, "impala": 256}


@dataclass(frozen=True)
class Conv:
    """One convolution."""

    channels: int
    kernel: int
    stride: int
    padding: int

    def size(self, pixels: int) -> int:
        """Pixels of a side after it."""
        return (pixels + 2 * self.padding - self.kernel) // self.stride + 1


NATURE = (Conv(32, 8, 4, 0), Conv(64, 4, 2, 0), Conv(64, 3, 1, 0))
SMALL = (Conv(32, 3, 1, 1), Conv(64, 3, 2, 1), Conv(64, 3, 2, 1))


@dataclass(frozen=True)
class Encoding:
    """How leaves become features.

    Attributes:
        cnn: The network of images; `none` flattens them.
        embed_above: Integers and characters of more values than this are embedded, others one-hot; 0 embeds none.
        shared: Policy and value network have one encoder; else one each, if it has weights.
        own: Classes of own encoders by path.
    """

    cnn: Cnn = "none"
    embed_above: int = 0
    shared: bool = True
    own: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.cnn not in get_args(Cnn) or type(self.embed_above) is not int or self.embed_above < 0:
            raise ValueError(f"{self} is no encoding")

    def way(self, leaf: Leaf) -> Way:
        """What is done with a leaf."""
        if leaf.path in self.own:
            return "own"
        if leaf.kind == "image" and self.cnn == "nature":
            image = image_of(leaf.shape, leaf.layout)
            return "nature" if min(image.height, image.width) >= NATURE_LEAST else "small"
        if leaf.kind == "image" and self.cnn == "impala":
            return "impala"
        if leaf.kind == "sequence":
            return "pooled and embedded"
        many = 0 < self.embed_above < max(leaf.nvec, default=0)
        if leaf.kind in ("text", "codes"):
            return "pooled and embedded" if many else "pooled"
        if leaf.is_counted:
            return "embedded" if many else "one-hot"
        return "as it is"

    def width(self, leaf: Leaf) -> int:
        """Features that a leaf becomes; 0 for an own encoder, whose class says it."""
        way = self.way(leaf)
        if way in OUTPUTS:
            return OUTPUTS[way]
        if way == "pooled and embedded":
            return EMBEDDING + 1
        if way == "pooled":
            return leaf.nvec[0] + 1
        if way == "embedded":
            return EMBEDDING * len(leaf.nvec)
        return 0 if way == "own" else leaf.features

    def weights(self, leaf: Leaf) -> int:
        """Weights of the encoder of a leaf; 0 for an own one, which nobody can count beforehand."""
        way = self.way(leaf)
        if way in ("nature", "small"):
            return _plain_weights(image_of(leaf.shape, leaf.layout), NATURE if way == "nature" else SMALL, OUTPUTS[way])
        if way == "impala":
            return _impala_weights(image_of(leaf.shape, leaf.layout))
        if way == "pooled and embedded":
            return (leaf.features + 1) * EMBEDDING if leaf.kind == "sequence" else leaf.nvec[0] * EMBEDDING
        return sum(leaf.nvec) * EMBEDDING if way == "embedded" else 0

    def said(self, leaf: Leaf) -> str:
        """What becomes of a leaf, in words."""
        way = self.way(leaf)
        if way == "own":
            return f"{_what(leaf)} -> your {getattr(self.own[leaf.path], '__name__', 'encoder')}"
        names = {"nature": "Nature CNN", "impala": "IMPALA ResNet", "small": "CNN for small images", "as it is": ""}
        name = names.get(way, way)
        if leaf.kind == "image" and way == "as it is":
            name = "flattened"
        width = self.width(leaf)
        numbers = f"{width:,} number{'s' if width != 1 else ''}"
        return f"{_what(leaf)} -> {name}, {numbers}" if name else f"{_what(leaf)} -> {numbers}"


def _what(leaf: Leaf) -> str:
    if leaf.kind == "image":
        return f"image {shown_image(leaf.shape, leaf.layout)}, uint8, divided by 255"
    if leaf.kind == "discrete":
        return f"one of {leaf.nvec[0]:,} values"
    if leaf.kind == "multidiscrete":
        return f"{leaf.size} integers of {_alike(leaf.nvec)} values"
    if leaf.kind == "multibinary":
        return f"{leaf.size} bits"
    if leaf.kind == "text":
        return f"text of up to {leaf.shape[0]} characters"
    if leaf.kind in ("codes", "sequence"):
        return f"sequence of up to {leaf.shape[0]} entries"
    if leaf.kind == "own":
        return f"array of shape {leaf.shape}"
    return f"{leaf.dtype} numbers of shape {leaf.shape}"


def _alike(counts: tuple[int, ...]) -> str:
    return f"{counts[0]:,}" if len(set(counts)) == 1 else f"up to {max(counts):,}"


def conv_sizes(image: Image, convs: tuple[Conv, ...]) -> tuple[int, int]:
    """Height and width after these convolutions."""
    height, width = image.height, image.width
    for conv in convs:
        height, width = conv.size(height), conv.size(width)
    return height, width


def impala_sizes(image: Image) -> tuple[int, int]:
    """Height and width after IMPALA's three blocks, each of which halves them."""
    height, width = image.height, image.width
    for _ in IMPALA_CHANNELS:
        height, width = (height + 1) // 2, (width + 1) // 2
    return height, width


def _plain_weights(image: Image, convs: tuple[Conv, ...], outputs: int) -> int:
    channels, total = image.channels, 0
    for conv in convs:
        total += (channels * conv.kernel**2 + 1) * conv.channels
        channels = conv.channels
    return total + (channels * math.prod(conv_sizes(image, convs)) + 1) * outputs


def _impala_weights(image: Image) -> int:
    channels, total = image.channels, 0
    for out in IMPALA_CHANNELS:
        total += (9 * channels + 1) * out + 4 * (9 * out + 1) * out
        channels = out
    return total + (channels * math.prod(impala_sizes(image)) + 1) * OUTPUTS["impala"]
