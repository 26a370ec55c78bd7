"""Actions of the policy as the environment's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from gymnasium import spaces as gs

from steadyrl.spaces.common import (
    DTYPES,
    are_counts,
    are_sizes,
    counts_of,
    dtype_of,
    insist_on_entries,
    unsupported,
)

ActionKind = Literal["continuous", "discrete", "multidiscrete", "multibinary", "tree"]
Float64 = npt.NDArray[np.float64]


class BoundsMap(NamedTuple):
    """Ends of the affine map (0 where there is none), where there is one, and limits of the results; [size] each."""

    low: Float64
    high: Float64
    bounded: npt.NDArray[np.bool_]
    least: Float64
    most: Float64


@dataclass(frozen=True)
class ActionSpec:
    """The action space, and the way from the policy's actions to the environment's.

    A continuous policy works in [-1, 1] in each bounded dimension, with an affine map to the bounds; an unbounded or
    one-sided dimension is passed through and clipped at a finite bound. An integer policy counts from 0; `start` is
    added.

    Attributes:
        kind: Which family of distribution fits.
        shape: Shape of one action at the environment.
        dtype: Its element type at the environment.
        nvec: Number of choices of each entry, flat (integer kinds; 2 for each entry of a MultiBinary).
        start: Lowest value of each entry, flat (integer kinds).
        low: Lower bounds, flat (continuous; may be infinite).
        high: Upper bounds, flat (continuous; may be infinite).

    Raises:
        ValueError: the fields do not fit together.
    """

    kind: ActionKind
    shape: tuple[int, ...]
    dtype: str
    nvec: tuple[int, ...] = ()
    start: tuple[int, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        good = self.kind in get_args(ActionKind) and self.kind != "tree"
        good = good and self.dtype in DTYPES and are_sizes(self.shape, 1)
        if good and self.kind == "continuous":
            bounds = (*self.low, *self.high)
            good = (
                len(self.low) == len(self.high) == self.size
                and all(type(x) is float for x in bounds)
                and all(low < high for low, high in zip(self.low, self.high, strict=True))
                and self.nvec == self.start == ()
            )
        elif good:
            good = are_counts(self.nvec, self.start, self.size, self.dtype) and self.low == self.high == ()
            good = good and (self.kind != "discrete" or self.shape == ())
            good = good and (self.kind != "multibinary" or (set(self.nvec), set(self.start)) == ({2}, {0}))
        if not good:
            raise ValueError(f"{self} is no action space")

    @property
    def size(self) -> int:
        """Entries of one action."""
        return math.prod(self.shape)

    @property
    def is_real(self) -> bool:
        """Whether the policy's actions are real numbers, which can be bad ones."""
        return self.stored_dtype is np.float32

    @property
    def stored_dtype(self) -> type[np.generic]:
        """Element type of the policy's actions."""
        return np.float32 if self.kind == "continuous" else np.int64

    @property
    def bounded(self) -> npt.NDArray[np.bool_]:
        """[size], where both bounds are finite."""
        return np.asarray(np.isfinite(np.array(self.low)) & np.isfinite(np.array(self.high)))

    @classmethod
    def of(cls, space: gs.Space[Any]) -> ActionSpec:
        """Raises UserError for a space of another kind, or with low == high in a dimension."""
        if isinstance(space, gs.Dict | gs.Tuple):
            from steadyrl.spaces.action_tree import tree_of_actions

            return tree_of_actions(space)
        return cls.of_leaf("", space)

    @classmethod
    def of_leaf(cls, path: str, space: gs.Space[Any]) -> ActionSpec:
        """That of a space without parts, at `path` of a larger one."""
        if isinstance(space, gs.Box | gs.MultiDiscrete | gs.MultiBinary):
            insist_on_entries("action", path, space)
        if isinstance(space, gs.Box):
            return cls._of_box(path, space)
        if isinstance(space, gs.Discrete):
            return cls("discrete", (), str(space.dtype), nvec=(int(space.n),), start=(int(space.start),))
        if isinstance(space, gs.MultiDiscrete):
            return cls("multidiscrete", space.shape, str(space.dtype), *counts_of(space))
        if isinstance(space, gs.MultiBinary):
            shape = tuple(int(n) for n in space.shape)
            size = math.prod(shape)
            return cls("multibinary", shape, str(space.dtype), nvec=(2,) * size, start=(0,) * size)
        raise unsupported(
            "action",
            path,
            space,
            "Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of these are: "
            "flatten it into one of them with gymnasium.wrappers.TransformAction.",
        )

    @classmethod
    def _of_box(cls, path: str, space: gs.Box) -> ActionSpec:
        dtype = dtype_of("action", path, space)
        low = _bounds(space.low, space.bounded_below, -math.inf)
        high = _bounds(space.high, space.bounded_above, math.inf)
        for i, (least, most) in enumerate(zip(low, high, strict=True)):
            if not least < most:
                remedy = f"It has no room in dimension {i} (low {least:g}, high {most:g}): leave such dimensions out."
                raise unsupported("action", path, space, remedy)
        return cls("continuous", space.shape, dtype, low=low, high=high)

    def to_env(self, actions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Policy actions [N, size] ([N] for Discrete) as environment actions [N, *shape] of the environment's dtype.

        Continuous actions are clipped to [-1, 1] before the affine map, whose ends are the bounds exactly; every result
        lies within the bounds. Integer types get the nearest integer.
        """
        n = actions.shape[0]
        if self.kind != "continuous":
            counted = actions.reshape(n, *self.shape) + self._lowest
            return np.asarray(counted.astype(self.dtype))
        low, high, bounded, least, most = self.bounds_map
        flat = actions.reshape(n, -1).astype(np.float64)
        share = (flat.clip(-1.0, 1.0) + 1.0) * 0.5
        mapped = low * (1.0 - share) + high * share
        flat = np.where(bounded, mapped, flat).clip(least, most)
        if np.dtype(self.dtype).kind in "biu":
            flat = np.rint(flat)
        return np.asarray(flat.astype(self.dtype).reshape(n, *self.shape))

    @cached_property
    def _lowest(self) -> npt.NDArray[np.int64]:
        """`start` in the shape of one action."""
        return np.array(self.start, dtype=np.int64).reshape(self.shape)

    @cached_property
    def bounds_map(self) -> BoundsMap:
        """The way from [-1, 1] to the environment's bounds (continuous)."""
        low, high, bounded = np.array(self.low), np.array(self.high), self.bounded
        least, most = _limits(self.dtype)
        return BoundsMap(
            np.where(bounded, low, 0.0), np.where(bounded, high, 0.0), bounded, low.clip(min=least), high.clip(max=most)
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values; an infinite bound is null."""
        return {
            "kind": self.kind,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "nvec": list(self.nvec),
            "start": list(self.start),
            "low": [x if math.isfinite(x) else None for x in self.low],
            "high": [x if math.isfinite(x) else None for x in self.high],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ActionSpec:
        """The inverse of `to_json`; ValueError, TypeError or KeyError for anything else."""
        if data["kind"] == "tree":
            from steadyrl.spaces.action_tree import ActionTree

            return ActionTree.of_json(data)
        fields = {name: tuple(data[name]) for name in ("shape", "nvec", "start")}
        low = tuple(-math.inf if x is None else x for x in data["low"])
        high = tuple(math.inf if x is None else x for x in data["high"])
        return cls(**{**data, **fields, "low": low, "high": high})


def _bounds(values: npt.NDArray[Any], finite: npt.NDArray[np.bool_], infinity: float) -> tuple[float, ...]:
    """Bounds of a Box, flat: `infinity` where there is none, rounded inward where float64 cannot hold an integer."""
    rows = zip(values.ravel().tolist(), np.broadcast_to(finite, values.shape).ravel().tolist(), strict=True)
    return tuple(_inward(bound, infinity) if there else infinity for bound, there in rows)


def _inward(bound: float, infinity: float) -> float:
    nearest = float(bound)
    outside = nearest > bound if infinity > 0 else nearest < bound
    return math.nextafter(nearest, -infinity) if outside else nearest


def _limits(dtype: str) -> tuple[float, float]:
    """Least and largest float64 that an element type holds."""
    if dtype == "bool":
        return 0.0, 1.0
    if np.dtype(dtype).kind == "f":
        return float(np.finfo(dtype).min), float(np.finfo(dtype).max)
    return _inward(int(np.iinfo(dtype).min), -math.inf), _inward(int(np.iinfo(dtype).max), math.inf)
