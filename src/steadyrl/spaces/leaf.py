"""One part of an observation: what it is, and how it is stored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from steadyrl.errors import UserError
from steadyrl.spaces.common import DTYPES, are_counts, are_sizes
from steadyrl.spaces.images import checked_layout, layout_of
from steadyrl.spaces.values import VARIABLE, Converter, store_variable

LeafKind = Literal["box", "image", "discrete", "multidiscrete", "multibinary", "text", "codes", "sequence", "own"]


@dataclass(frozen=True)
class Leaf:
    """One part of an observation.

    `shape` is the environment's shape of one observation; `start` and `nvec` hold, flat, the lowest value and the
    number of values of each entry of an integer space. A `discrete` or `multidiscrete` leaf is stored as int64 counted
    from 0, an `image` as uint8, the `box` and `multibinary` ones as float32.

    `text`, `codes` (a sequence of integers), `sequence` (of numbers) and `own` (what an own encoder makes an array of)
    are stored as `values` tells: `shape` begins with the most entries that are kept, `nvec` holds the number of codes.

    Raises:
        ValueError: the fields do not fit together.
    """

    path: str
    kind: LeafKind
    shape: tuple[int, ...]
    dtype: str
    nvec: tuple[int, ...] = ()
    start: tuple[int, ...] = ()
    scale: float = 1.0  # the network's input is the stored value times this (1/255 for an image)
    layout: str = ""  # what the axes of an image are
    characters: str = ""  # that a text is made of; one further code stands for any other, if `nvec` counts it

    def __post_init__(self) -> None:
        good = (
            type(self.path) is str
            and self.kind in get_args(LeafKind)
            and self.dtype in DTYPES
            and are_sizes(self.shape, 0)
            and type(self.scale) is float
            and 0.0 < self.scale < math.inf
            and self._counts_fit()
        )
        if not good:
            raise ValueError(f"{self} is no part of an observation space")

    def _counts_fit(self) -> bool:
        """Whether the fields are those that this kind has."""
        if self.kind == "image":
            counted = self.dtype == "uint8" and checked_layout(self.shape, self.layout)
            return counted and self.nvec == self.start == () and self.characters == ""
        if self.layout != "" or (self.kind != "text" and self.characters != ""):
            return False
        if self.kind in ("text", "codes"):
            sized = len(self.shape) == 1 and self.size >= 1 and are_counts(self.nvec, self.start, 1, self.dtype)
            if not sized or self.kind == "codes":
                return sized
            known = type(self.characters) is str and len(set(self.characters)) == len(self.characters)
            return known and self.start == (0,) and self.nvec[0] - len(self.characters) in (0, 1)
        if self.kind in ("discrete", "multidiscrete"):
            return are_counts(self.nvec, self.start, self.size, self.dtype) and (
                self.kind != "discrete" or self.shape == ()
            )
        least = 1 if self.kind == "sequence" else 0
        return self.nvec == self.start == () and (not least or (len(self.shape) >= 1 and self.shape[0] >= 1))

    @property
    def size(self) -> int:
        """Entries of one observation as the environment has them."""
        return math.prod(self.shape)

    @property
    def features(self) -> int:
        """Width of the network's input for this leaf where its encoder has no weights."""
        if self.kind == "sequence":
            return math.prod(self.shape[1:])
        return sum(self.nvec) if self.nvec else self.size

    @property
    def is_counted(self) -> bool:
        """Whether each entry is one of some values, counted from 0."""
        return self.kind in ("discrete", "multidiscrete")

    @property
    def may_be_bad(self) -> bool:
        """Whether the environment's numbers can be NaN, infinite or absurd."""
        wide = np.dtype(self.dtype).kind == "f" or np.dtype(self.dtype).itemsize == 8
        return self.stored_dtype is np.float32 and wide

    @property
    def stored_dtype(self) -> type[np.generic]:
        """Element type of the stored array."""
        if self.kind == "image":
            return np.uint8
        return np.int64 if self.nvec else np.float32

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of one stored observation: integer leaves are flat."""
        if self.kind == "sequence":
            return self.shape[0], self.features + 1
        return (self.size,) if self.nvec else self.shape

    @property
    def where(self) -> str:
        """Where it is, for errors: ` at 'arm/joints'`, or nothing."""
        return f" at '{self.path}'" if self.path else ""

    def store(self, value: Any, batch: bool, convert: Converter | None = None) -> npt.NDArray[Any]:
        """The environment's value, [N, ...] if `batch`, as a fresh array of the stored type, always [N, ...].

        `convert` makes arrays of the values of an `own` leaf.

        Raises:
            UserError: the value is not numbers of this leaf's shape, or an integer is outside the space.
        """
        if self.kind in VARIABLE:
            return store_variable(self, value, batch, convert)
        array = self.numbers(value)
        if not batch:
            array = array[None]
        if array.shape[1:] != self.shape or not array.ndim:
            raise UserError(
                f"An observation{self.where} has shape {array.shape[1:] if array.ndim else 'of no batch'}, "
                f"but the observation space says {self.shape}.",
                remedy="Pass one observation of that shape, or a batch with one more leading dimension.",
                code="obs-shape",
            )
        if self.nvec:
            return self._counted(array)
        if self.kind == "image":
            return self._pixels(array)
        if self.kind == "multibinary":
            self._insist_on_bits(array)
        if array.dtype != np.float64:
            return array.astype(np.float32)
        with np.errstate(over="ignore"):  # becomes infinite, which the caller looks for
            return array.astype(np.float32)

    def _insist_on_bits(self, array: npt.NDArray[Any]) -> None:
        wrong = (array != 0) & (array != 1)
        if wrong.any():
            raise UserError(
                f"An observation{self.where} holds {array[wrong][0]}, which is outside its multibinary space.",
                remedy="Pass observations of the space that the policy was made for: 0 and 1.",
                code="obs-range",
            )

    def _pixels(self, array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """Pixels [N, *shape] as uint8, which they must be but for their type."""
        if array.dtype == np.uint8:
            return array.copy()
        with np.errstate(invalid="ignore"):
            pixels = array.astype(np.uint8)
        wrong = (pixels != array) | (array < 0)
        if wrong.any():
            raise UserError(
                f"An image{self.where} holds {array[wrong][0]}, which is no whole number from 0 to 255.",
                remedy="Pass the image as the environment gives it, in uint8: it is scaled inside the policy.",
                code="obs-range",
            )
        return pixels

    def numbers(self, value: Any) -> npt.NDArray[Any]:
        """The value as an array, which may be its own memory.

        Raises:
            UserError: it is not an array of numbers.
        """
        try:
            array = np.asarray(value)
        except (ValueError, TypeError, RuntimeError):
            array = np.array(None)
        if array.dtype.kind not in "biuf":
            raise UserError(
                f"An observation{self.where} is a {type(value).__name__} that is not an array of numbers.",
                remedy=f"Pass a NumPy array of shape {self.shape}, or a batch of them.",
                code="obs-type",
            )
        return array

    def _counted(self, array: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Integers [N, *shape] as they are stored, flat and counted from 0."""
        flat = array.reshape(array.shape[0], self.size)
        with np.errstate(invalid="ignore"):
            whole = flat.astype(np.int64)
        index = whole - np.array(self.start, dtype=np.int64)
        wrong = (index < 0) | (index >= np.array(self.nvec, dtype=np.int64)) | (whole != flat)
        if wrong.any():
            raise UserError(
                f"An observation{self.where} holds {flat[wrong][0]}, which is outside its {self.kind} space "
                f"(values per entry {self._shown(self.nvec)}, lowest {self._shown(self.start)}).",
                remedy="Pass observations of the space that the policy was made for.",
                code="obs-range",
            )
        return index

    @staticmethod
    def _shown(values: tuple[int, ...]) -> str:
        return str(values[0]) if len(set(values)) == 1 else str(list(values))

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; those that only some kinds have are left out elsewhere."""
        found: dict[str, Any] = {
            "path": self.path,
            "kind": self.kind,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "nvec": list(self.nvec),
            "start": list(self.start),
            "scale": self.scale,
        }
        if self.layout:
            found["layout"] = self.layout
        if self.kind == "text":
            found["characters"] = self.characters
        return found

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Leaf:
        """The inverse of `to_json`; ValueError, TypeError or KeyError for anything else.

        Before images had a kind of their own they were boxes with a scale.
        """
        fields = {"scale": data["scale"], **data, **{name: tuple(data[name]) for name in ("shape", "nvec", "start")}}
        shape = fields["shape"]
        if data["kind"] == "box" and data["dtype"] == "uint8" and len(shape) in (2, 3, 4) and data["scale"] != 1.0:
            fields |= {"kind": "image", "layout": layout_of(shape, "any")}
        return cls(**fields)
