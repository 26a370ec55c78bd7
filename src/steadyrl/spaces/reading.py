"""From a Gymnasium space to leaves: the one place that says what the library makes of each kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gymnasium import spaces as gs

from steadyrl.errors import UserError
from steadyrl.spaces.common import DTYPES, counts_of, dtype_of, insist_on_entries, unsupported
from steadyrl.spaces.images import ImageLayout, is_image, layout_of
from steadyrl.spaces.leaf import Leaf
from steadyrl.spaces.observation import ObsSpec
from steadyrl.spaces.tree import Tree, insist_on_nodes, join, leaf_spaces
from steadyrl.spaces.values import PRINTABLE, Converter

DEFAULT_LENGTH = 128
_PLURAL = {"leaf": "leaves", "image": "images"}


@dataclass(frozen=True)
class Reading:
    """How spaces are read.

    Attributes:
        image_layout: Whether the channels of images come last (`hwc`) or first (`chw`), of all of them or by path.
        sequence_length: Entries that are kept of a sequence, and of a text whose space does not say its length.
        own: Classes of own encoders, by path; where a leaf has no array, `shape` and `to_array` of the class make one.
    """

    image_layout: ImageLayout | Mapping[str, ImageLayout] = "any"
    sequence_length: int = DEFAULT_LENGTH
    own: Mapping[str, Any] = field(default_factory=dict)

    def layout(self, path: str) -> ImageLayout:
        """What is declared of the image at a path."""
        declared = self.image_layout
        return declared if isinstance(declared, str) else declared.get(path, "auto")


def read(space: gs.Space[Any], reading: Reading) -> ObsSpec:
    """The leaves of a space.

    Raises:
        UserError: a part of it is of a kind that is not supported, or an encoder is for a path that is not there.
    """
    insist_on_nodes("observation", space)
    spaces = leaf_spaces(space)
    paths = [path for path, _ in spaces]
    _insist_on_paths("encoders", reading.own, paths, "leaf")
    if not isinstance(reading.image_layout, str):
        images = [path for path, part in spaces if isinstance(part, gs.Box) and is_image(part)]
        _insist_on_paths("image_layout", reading.image_layout, images, "image")
    leaves = tuple(_leaf(path, part, reading) for path, part in spaces)
    converters = {leaf.path: reading.own[leaf.path].to_array for leaf in leaves if leaf.kind == "own"}
    return ObsSpec(leaves, Tree.of(space), converters)


def _insist_on_paths(setting: str, given: Iterable[str], paths: list[str], what: str) -> None:
    for path in given:
        if path not in paths:
            raise UserError(
                f"{setting} has {path!r}, but the observation space has no such {what}.",
                remedy=f"Its {_PLURAL[what]} are {', '.join(map(repr, paths))}." if paths else f"Leave {setting} out.",
                code="bad-value",
            )


def with_converters(spec: ObsSpec, own: Mapping[str, Any]) -> ObsSpec:
    """The same leaves, with what makes arrays of their values taken from the classes of own encoders.

    Raises:
        UserError: a class does not make what the leaf holds.
    """
    converters: dict[str, Converter] = {}
    for leaf in spec.leaves:
        if leaf.kind == "own" and leaf.path in own:
            made = _own_leaf(leaf.path, own[leaf.path])
            if made.shape != leaf.shape:
                raise UserError(
                    f"The encoder{leaf.where} makes arrays of shape {made.shape}, not {leaf.shape}.",
                    remedy="Pass the class that the policy was made with.",
                    code="bad-encoder",
                )
            converters[leaf.path] = own[leaf.path].to_array
    return ObsSpec(spec.leaves, spec.tree, converters)


def _leaf(path: str, space: gs.Space[Any], reading: Reading) -> Leaf:
    insist_on_entries("observation", path, space)
    own = reading.own.get(path)
    if own is not None and hasattr(own, "to_array"):
        return _own_leaf(path, own)
    if isinstance(space, gs.Box):
        if is_image(space):
            layout = layout_of(space.shape, reading.layout(path) if own is None else "any", path)
            return Leaf(path, "image", space.shape, "uint8", scale=1 / 255, layout=layout)
        return Leaf(path, "box", space.shape, dtype_of("observation", path, space))
    if isinstance(space, gs.Discrete):
        return Leaf(path, "discrete", (), str(space.dtype), nvec=(int(space.n),), start=(int(space.start),))
    if isinstance(space, gs.MultiDiscrete):
        return Leaf(path, "multidiscrete", space.shape, str(space.dtype), *counts_of(space))
    if isinstance(space, gs.MultiBinary):
        return Leaf(path, "multibinary", tuple(int(n) for n in space.shape), str(space.dtype))
    if isinstance(space, gs.Text):
        characters = "".join(sorted(set(space.character_list)))
        return Leaf(path, "text", (int(space.max_length),), "int64", (len(characters),), (0,), characters=characters)
    if space.dtype is not None and space.dtype.kind == "U":  # a space of one's own, such as MiniGrid's of missions
        codes = len(PRINTABLE) + 1
        return Leaf(path, "text", (reading.sequence_length,), "int64", (codes,), (0,), characters=PRINTABLE)
    if isinstance(space, gs.Sequence) and (own is None or _is_read(space.feature_space)):
        return _sequence(path, space, reading.sequence_length)
    if own is not None:
        return _own_leaf(path, own)
    raise unsupported("observation", path, space, _own_remedy(path))


def _is_read(feature: gs.Space[Any]) -> bool:
    """Whether sequences of it are read without an encoder of their own."""
    numbers = isinstance(feature, gs.Box | gs.MultiBinary) and str(feature.dtype) in DTYPES
    return numbers or isinstance(feature, gs.Discrete)


def _sequence(path: str, space: gs.Sequence, length: int) -> Leaf:
    feature = space.feature_space
    insist_on_entries("observation", join(path, "*"), feature)
    if isinstance(feature, gs.Discrete):
        return Leaf(path, "codes", (length,), str(feature.dtype), (int(feature.n),), (int(feature.start),))
    if isinstance(feature, gs.Box | gs.MultiBinary) and _is_read(feature):
        shape = tuple(int(n) for n in feature.shape)
        scale = 1 / 255 if isinstance(feature, gs.Box) and is_image(feature) else 1.0
        return Leaf(path, "sequence", (length, *shape), str(feature.dtype), scale=scale)
    raise unsupported(
        "observation", path, space, f"Sequences of Box, Discrete and MultiBinary are. {_own_remedy(path)}"
    )


def _own_leaf(path: str, encoder: Any) -> Leaf:
    shape = getattr(encoder, "shape", None)
    sized = isinstance(shape, tuple) and all(type(n) is int and n >= 1 for n in shape)
    if not sized or shape is None or not callable(getattr(encoder, "to_array", None)):
        raise UserError(
            f"The encoder at '{path}' does not say how its leaf is stored.",
            remedy="Give its class an attribute `shape`, such as (10, 4), and a static method `to_array(value)`, which "
            "makes a float array of this shape.",
            code="bad-encoder",
        )
    return Leaf(path, "own", shape, "float32")


def _own_remedy(path: str) -> str:
    return (
        "Turn it into a Box, Discrete, MultiDiscrete, MultiBinary, Text, Sequence, Dict or Tuple with "
        f"gymnasium.wrappers.TransformObservation, or give it an encoder of your own: encoders={{{path!r}: MyEncoder}} "
        "(docs/spaces.md)."
    )
