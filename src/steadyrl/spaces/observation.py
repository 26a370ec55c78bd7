"""Observations of the environment as stored trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces as gs

from steadyrl.errors import UserError
from steadyrl.spaces.leaf import Leaf
from steadyrl.spaces.tree import MisfitError, Tree
from steadyrl.spaces.values import VARIABLE, Converter, is_single_variable

ObsTree = dict[str, npt.NDArray[Any]]


class ObsSpec:
    """The observation space as leaves, and the way from the environment's observations to stored trees.

    Args:
        leaves: In the order of the space.
        tree: How dictionaries and tuples hold them; None is one leaf alone, or a dictionary of them by path.
        converters: What makes arrays of the values of `own` leaves, by path.

    Raises:
        ValueError: there is no leaf, two have the same path, or the tree has others.
    """

    def __init__(
        self, leaves: tuple[Leaf, ...], tree: Tree | None = None, converters: Mapping[str, Converter] | None = None
    ) -> None:
        self.leaves = leaves
        self.by_path = {leaf.path: leaf for leaf in leaves}
        if not leaves or len(self.by_path) != len(leaves) or ("" in self.by_path and len(leaves) > 1):
            raise ValueError(f"the paths {[leaf.path for leaf in leaves]} make no observation space")
        self._is_flat = tree is None or tree.node == _flat_node(leaves)
        listed = frozenset(leaf.path for leaf in leaves if leaf.kind in VARIABLE)
        self.tree = Tree(_flat_node(leaves) if tree is None else tree.node, listed)
        self.converters = dict(converters or {})
        if sorted(self.tree.paths) != sorted(self.by_path):
            raise ValueError(f"the tree has the leaves {self.tree.paths} instead of {list(self.by_path)}")

    @property
    def is_tree(self) -> bool:
        """Whether observations are dictionaries or tuples."""
        return not isinstance(self.tree.node, str)

    @classmethod
    def of(cls, space: gs.Space[Any], reading: Any = None) -> ObsSpec:
        """Leaves of a space, read as `reading.Reading` says.

        Raises:
            UserError: a part of the space is of a kind that is not supported.
        """
        from steadyrl.spaces.reading import Reading, read

        return read(space, reading or Reading())

    def store(self, obs: Any, *, batch: bool) -> ObsTree:
        """Observations of the environment, one or [N, ...], as a stored tree with leaves [N, ...].

        Raises:
            UserError: a key is missing, a shape is wrong, or an integer is outside its space.
        """
        if not self.is_tree:
            return {"": self.leaves[0].store(obs, batch, self.converters.get(""))}
        parts = self.flat(obs)
        tree = {leaf.path: leaf.store(parts[leaf.path], batch, self.converters.get(leaf.path)) for leaf in self.leaves}
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
        parts = self.flat(obs)
        leaf = next((leaf for leaf in self.leaves if leaf.kind not in VARIABLE), self.leaves[0])
        if leaf.kind in VARIABLE:
            return is_single_variable(leaf, parts[leaf.path])
        shape = leaf.numbers(parts[leaf.path]).shape
        if shape == leaf.shape:
            return True
        if len(shape) == len(leaf.shape) + 1 and shape[1:] == leaf.shape:
            return False
        batch = ", ".join(map(str, ("n", *leaf.shape)))
        raise UserError(
            f"The observation{leaf.where} has shape {shape}, but the policy was made for {leaf.shape}.",
            remedy=f"Pass one observation of shape {leaf.shape}, or a batch of shape ({batch}).",
            code="obs-shape",
        )

    def flat(self, obs: Any) -> dict[str, Any]:
        """The parts of an observation, or of a batch, by path.

        Raises:
            UserError: it is of another structure.
        """
        try:
            return self.tree.flat(obs)
        except MisfitError as misfit:
            where = f" at '{misfit.path}'" if misfit.path else ""
            raise UserError(
                f"The observation space{where} is {misfit.wanted}, but the observation is {misfit.found}.",
                remedy="Pass observations of the structure that the space has.",
                code="obs-keys",
            ) from None

    def zeros(self, *lead: int) -> ObsTree:
        """Room for stored observations with these leading dimensions."""
        return {leaf.path: np.zeros((*lead, *leaf.stored_shape), dtype=leaf.stored_dtype) for leaf in self.leaves}

    def to_json(self) -> Any:
        """The leaves as JSON values, with the structure where it is more than one dictionary."""
        leaves = [leaf.to_json() for leaf in self.leaves]
        return leaves if self._is_flat else {"leaves": leaves, "tree": self.tree.to_json()}

    @classmethod
    def from_json(cls, data: Any) -> ObsSpec:
        """The inverse of `to_json`; ValueError, TypeError or KeyError for anything else."""
        if isinstance(data, list):
            return cls(tuple(map(Leaf.from_json, data)))
        if data.keys() != {"leaves", "tree"}:
            raise ValueError("an observation space is described by its leaves and its tree")
        return cls(tuple(map(Leaf.from_json, data["leaves"])), Tree.from_json(data["tree"]))


def _flat_node(leaves: tuple[Leaf, ...]) -> Any:
    return "" if leaves[0].path == "" else {leaf.path: leaf.path for leaf in leaves}
