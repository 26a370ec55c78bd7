"""Actions with parts: dictionaries and tuples of Box, Discrete, MultiDiscrete and MultiBinary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces as gs

from steadyrl.errors import UserError
from steadyrl.spaces.action import ActionSpec
from steadyrl.spaces.tree import Tree, insist_on_nodes, leaf_spaces

_EXACT = 2**24  # whole numbers up to it are float32 numbers


@dataclass(frozen=True)
class ActionTree(ActionSpec):
    """An action space with parts.

    The policy's actions are float32, [N, size]: the parts' own side by side, integers as whole numbers. Those of the
    environment are a structured array [N] with a field for each part, named by its path; `tree.built` makes the
    environment's own dictionaries and tuples of the fields.

    Attributes:
        parts: By path, in the order of the space.
        tree: How dictionaries and tuples hold them.
    """

    parts: tuple[tuple[str, ActionSpec], ...] = ()
    tree: Tree = field(default_factory=Tree)

    def __post_init__(self) -> None:
        paths = [path for path, _ in self.parts]
        good = (
            (self.kind, self.shape, self.dtype, self.nvec, self.start, self.low, self.high)
            == ("tree", (), "float32", (), (), (), ())
            and len(paths) == len(set(paths)) > 0
            and "" not in paths
            and sorted(self.tree.paths) == sorted(paths)
            and all(part.kind != "tree" and max(part.nvec, default=1) <= _EXACT for _, part in self.parts)
        )
        if not good:
            raise ValueError(f"{self} is no action space")

    @property
    def size(self) -> int:
        """Entries of one action."""
        return sum(part.size for _, part in self.parts)

    @property
    def stored_dtype(self) -> type[np.generic]:
        """Element type of the policy's actions."""
        return np.float32

    @property
    def bounded(self) -> npt.NDArray[np.bool_]:
        """[size], where both bounds are finite; integers are bounded."""
        parts = [part.bounded if part.kind == "continuous" else np.ones(part.size, bool) for _, part in self.parts]
        return np.concatenate(parts)

    @property
    def env_dtype(self) -> np.dtype[Any]:
        """Of the environment's actions: a field for each part."""
        return np.dtype([(path, part.dtype, part.shape) for path, part in self.parts])

    def slices(self) -> Iterator[tuple[ActionSpec, slice]]:
        """The parts, and where each is in the policy's actions."""
        start = 0
        for _, part in self.parts:
            yield part, slice(start, start + part.size)
            start += part.size

    def to_env(self, actions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Policy actions [N, size] as environment actions, a structured array [N] of `env_dtype`."""
        found = np.empty(len(actions), dtype=self.env_dtype)
        for (path, _), (part, place) in zip(self.parts, self.slices(), strict=True):
            own = actions[:, place]
            found[path] = part.to_env(own if part.kind == "continuous" else own.astype(np.int64))
        return found

    def unpacked(self, actions: npt.NDArray[Any], row: int | None = None) -> Any:
        """Environment actions as the environment's own structure: a batch with arrays [N, ...], or one row alone."""
        taken = actions if row is None else actions[row]
        return self.tree.built({path: np.array(taken[path])[()] for path, _ in self.parts})

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"kind": "tree", "parts": [[path, part.to_json()] for path, part in self.parts]} | {
            "tree": self.tree.to_json()
        }

    @classmethod
    def of_json(cls, data: dict[str, Any]) -> ActionTree:
        """The inverse of `to_json`; ValueError, TypeError or KeyError for anything else."""
        if data.keys() != {"kind", "parts", "tree"}:
            raise ValueError("an action space with parts is described by its parts and its tree")
        parts = tuple((path, ActionSpec.from_json(part)) for path, part in data["parts"])
        return cls("tree", (), "float32", parts=parts, tree=Tree.from_json(data["tree"]))


def tree_of_actions(space: gs.Space[Any]) -> ActionTree:
    """The action space of a Dict or Tuple.

    Raises:
        UserError: a part of it is of a kind that is not supported.
    """
    insist_on_nodes("action", space)
    parts = tuple((path, ActionSpec.of_leaf(path, part)) for path, part in leaf_spaces(space))
    for path, part in parts:
        if max(part.nvec, default=1) > _EXACT:
            raise UserError(
                f"The action space at '{path}' has {max(part.nvec)} choices, but at most {_EXACT} are possible.",
                remedy="Divide the choice into several.",
                code="unsupported-action-space",
            )
    return ActionTree("tree", (), "float32", parts=parts, tree=Tree.of(space))


def env_actions(space: gs.Space[Any], actions: Any) -> Any:
    """A batch of environment actions as Gymnasium's own vector environments take them."""
    names = getattr(getattr(actions, "dtype", None), "names", None)
    if not names:
        return actions
    return Tree.of(space).built({path: np.array(actions[path]) for path in names})
