"""Observations of the environment as stored trees."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from gymnasium import spaces as gs

from steadyrl.errors import UserError
from steadyrl.spaces.common import DTYPES, are_counts, are_sizes, counts_of, dtype_of, unsupported

ObsTree = dict[str, npt.NDArray[Any]]
LeafKind = Literal["box", "discrete", "multidiscrete", "multibinary"]


@dataclass(frozen=True)
class Leaf:
    """One part of an observation.

    `shape` is the environment's shape of one observation; `start` and `nvec` hold, flat, the lowest value and the
    number of values of each entry of an integer space. A `discrete` or `multidiscrete` leaf is stored as int64 counted
    from 0 and one-hot encoded by the network; the others are stored as float32.

    Raises:
        ValueError: the fields do not fit together.
    """

    path: str
    kind: LeafKind
    shape: tuple[int, ...]
    dtype: str
    nvec: tuple[int, ...] = ()
    start: tuple[int, ...] = ()
    scale: float = 1.0  # the network's input is the stored value times this (1/255 for a uint8 image)

    def __post_init__(self) -> None:
        integer = self.kind in ("discrete", "multidiscrete")
        good = (
            type(self.path) is str
            and self.kind in get_args(LeafKind)
            and self.dtype in DTYPES
            and are_sizes(self.shape, 0)
            and (self.kind != "discrete" or self.shape == ())
            and (are_counts(self.nvec, self.start, self.size, self.dtype) if integer else self.nvec == self.start == ())
            and type(self.scale) is float
            and 0.0 < self.scale < math.inf
        )
        if not good:
            raise ValueError(f"{self} is no part of an observation space")

    @property
    def size(self) -> int:
        """Entries of one stored observation."""
        return math.prod(self.shape)

    @property
    def features(self) -> int:
        """Width of the network's input for this leaf."""
        return sum(self.nvec) if self.nvec else self.size

    @property
    def stored_dtype(self) -> type[np.generic]:
        """Element type of the stored array."""
        return np.int64 if self.nvec else np.float32

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of one stored observation: integer leaves are flat."""
        return (self.size,) if self.nvec else self.shape

    def store(self, value: Any, batch: bool) -> npt.NDArray[Any]:
        """The environment's value, [N, ...] if `batch`, as a fresh array of the stored type, always [N, ...].

        Raises:
            UserError: the value is not numbers of this leaf's shape, or an integer is outside the space.
        """
        array = self.numbers(value)
        if not batch:
            array = array[None]
        if array.shape[1:] != self.shape or not array.ndim:
            raise UserError(
                f"An observation{self._where} has shape {array.shape[1:] if array.ndim else 'of no batch'}, "
                f"but the observation space says {self.shape}.",
                remedy="Pass one observation of that shape, or a batch with one more leading dimension.",
                code="obs-shape",
            )
        if self.nvec:
            return self._counted(array)
        if array.dtype != np.float64:
            return array.astype(np.float32)
        with np.errstate(over="ignore"):  # becomes infinite, which the caller looks for
            return array.astype(np.float32)

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
                f"An observation{self._where} is a {type(value).__name__} that is not an array of numbers.",
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
                f"An observation{self._where} holds {flat[wrong][0]}, which is outside its {self.kind} space "
                f"(values per entry {self._shown(self.nvec)}, lowest {self._shown(self.start)}).",
                remedy="Pass observations of the space that the policy was made for.",
                code="obs-range",
            )
        return index

    @staticmethod
    def _shown(values: tuple[int, ...]) -> str:
        return str(values[0]) if len(set(values)) == 1 else str(list(values))

    @property
    def _where(self) -> str:
        return f" at '{self.path}'" if self.path else ""


class ObsSpec:
    """The observation space as leaves, and the way from the environment's observations to stored trees.

    Raises:
        ValueError: there is no leaf, or two have the same path.
    """

    def __init__(self, leaves: tuple[Leaf, ...]) -> None:
        self.leaves = leaves
        self.by_path = {leaf.path: leaf for leaf in leaves}
        if not leaves or len(self.by_path) != len(leaves) or ("" in self.by_path and len(leaves) > 1):
            raise ValueError(f"the paths {[leaf.path for leaf in leaves]} make no observation space")

    @property
    def is_tree(self) -> bool:
        """Whether observations are dictionaries."""
        return "" not in self.by_path

    @classmethod
    def of(cls, space: gs.Space[Any]) -> ObsSpec:
        """Leaves of a space.

        Raises:
            UserError: a part of the space is of a kind that is not supported.
        """
        if not isinstance(space, gs.Dict):
            return cls((_leaf("", space),))
        if not space.spaces:
            raise unsupported("observation", "", space, "The dictionary is empty: give it at least one key.")
        odd = [key for key in space.spaces if type(key) is not str or not key]
        if odd:
            raise unsupported("observation", "", space, f"Its key {odd[0]!r} must be a word.")
        return cls(tuple(_leaf(key, part) for key, part in space.spaces.items()))

    def store(self, obs: Any, *, batch: bool) -> ObsTree:
        """Observations of the environment, one or [N, ...], as a stored tree with leaves [N, ...].

        Raises:
            UserError: a key is missing, a shape is wrong, or an integer is outside its space.
        """
        if not self.is_tree:
            return {"": self.leaves[0].store(obs, batch)}
        self._insist_on_keys(obs)
        tree = {leaf.path: leaf.store(obs[leaf.path], batch) for leaf in self.leaves}
        sizes = {path: len(array) for path, array in tree.items()}
        if len(set(sizes.values())) > 1:
            raise UserError(
                f"The parts of the observation are batches of different sizes: {sizes}.",
                remedy="Pass the same number of observations at each key.",
                code="obs-shape",
            )
        return tree

    def is_single(self, obs: Any) -> bool:
        """Whether `obs` is one observation rather than a batch.

        Raises:
            UserError: it is neither.
        """
        leaf = self.leaves[0]
        if self.is_tree:
            self._insist_on_keys(obs)
        shape = leaf.numbers(obs[leaf.path] if self.is_tree else obs).shape
        if shape == leaf.shape:
            return True
        if len(shape) == len(leaf.shape) + 1 and shape[1:] == leaf.shape:
            return False
        where = f" at '{leaf.path}'" if leaf.path else ""
        batch = ", ".join(map(str, ("n", *leaf.shape)))
        raise UserError(
            f"The observation{where} has shape {shape}, but the policy was made for {leaf.shape}.",
            remedy=f"Pass one observation of shape {leaf.shape}, or a batch of shape ({batch}).",
            code="obs-shape",
        )

    def _insist_on_keys(self, obs: Any) -> None:
        if isinstance(obs, dict) and self.by_path.keys() <= obs.keys():
            return
        found = f"one with the keys {sorted(map(str, obs))}" if isinstance(obs, dict) else f"a {type(obs).__name__}"
        raise UserError(
            f"The observation space is a dictionary with the keys {sorted(self.by_path)}, "
            f"but the observation is {found}.",
            remedy="Pass a dictionary with these keys.",
            code="obs-keys",
        )

    def zeros(self, *lead: int) -> ObsTree:
        """Room for stored observations with these leading dimensions."""
        return {leaf.path: np.zeros((*lead, *leaf.stored_shape), dtype=leaf.stored_dtype) for leaf in self.leaves}

    def to_json(self) -> list[dict[str, Any]]:
        """The leaves as JSON values."""
        return [
            {
                "path": leaf.path,
                "kind": leaf.kind,
                "shape": list(leaf.shape),
                "dtype": leaf.dtype,
                "nvec": list(leaf.nvec),
                "start": list(leaf.start),
                "scale": leaf.scale,
            }
            for leaf in self.leaves
        ]

    @classmethod
    def from_json(cls, data: list[dict[str, Any]]) -> ObsSpec:
        """The inverse of `to_json`; ValueError, TypeError or KeyError for anything else."""
        tuples = ("shape", "nvec", "start")
        own = [{"scale": leaf["scale"]} | {name: tuple(leaf[name]) for name in tuples} for leaf in data]
        return cls(tuple(Leaf(**{**leaf, **parts}) for leaf, parts in zip(data, own, strict=True)))


def _leaf(path: str, space: gs.Space[Any]) -> Leaf:
    if isinstance(space, gs.Box):
        image = space.dtype == np.uint8 and len(space.shape) >= 2
        return Leaf(path, "box", space.shape, dtype_of("observation", path, space), scale=1 / 255 if image else 1.0)
    if isinstance(space, gs.Discrete):
        return Leaf(path, "discrete", (), str(space.dtype), nvec=(int(space.n),), start=(int(space.start),))
    if isinstance(space, gs.MultiDiscrete):
        return Leaf(path, "multidiscrete", space.shape, str(space.dtype), *counts_of(space))
    if isinstance(space, gs.MultiBinary):
        return Leaf(path, "multibinary", tuple(int(n) for n in space.shape), str(space.dtype))
    raise unsupported(
        "observation",
        path,
        space,
        "Box, Discrete, MultiDiscrete, MultiBinary and flat Dicts of these are: "
        "turn it into one of them with gymnasium.wrappers.TransformObservation.",
    )
