"""The structure of a space, and of its values: dictionaries and tuples within each other, with leaves at paths.

The path of a leaf is made of its keys and numbers: `arm/joints/0`. A space without parts is one leaf at `""`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces as gs

from steadyrl.errors import UserError
from steadyrl.spaces.common import unsupported

Node = str | dict[str, Any] | tuple[Any, ...]  # a leaf's path, or nodes by key, or nodes in order

FIXED = (gs.Box, gs.Discrete, gs.MultiDiscrete, gs.MultiBinary)
MAX_DEPTH = 32


class MisfitError(Exception):
    """A value that is not of the structure.

    Attributes:
        path: Of the part that does not fit.
        wanted: What it should be, in words.
        value: What it is.
    """

    def __init__(self, path: str, wanted: str, value: Any) -> None:
        super().__init__(path, wanted)
        self.path, self.wanted, self.value = path, wanted, value

    @property
    def found(self) -> str:
        """The value in words."""
        if isinstance(self.value, dict):
            return f"one with the keys {sorted(map(str, self.value))}"
        if isinstance(self.value, tuple | list):
            return f"a {type(self.value).__name__} of {len(self.value)}"
        return f"a {type(self.value).__name__}"


@dataclass(frozen=True)
class Tree:
    """A structure.

    Attributes:
        node: The outermost node.
        listed: Paths of leaves whose values are no arrays of one shape: batches of them are tuples, as Gymnasium's are.
    """

    node: Node = ""
    listed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, space: gs.Space[Any]) -> Tree:
        """That of a space, whatever its leaves are."""
        node = _node("", space)
        return cls(node, frozenset(path for path, leaf in leaf_spaces(space) if not isinstance(leaf, FIXED)))

    @property
    def paths(self) -> list[str]:
        """Of all leaves, in order."""
        return list(_paths(self.node))

    def flat(self, value: Any) -> dict[str, Any]:
        """The leaves of a value, or of a batch of values, by path.

        Raises:
            MisfitError: it is of another structure.
        """
        found: dict[str, Any] = {}
        _take(self.node, value, "", found)
        return found

    def built(self, leaves: Mapping[str, Any]) -> Any:
        """The value with these leaves: dictionaries and tuples as the space has them."""
        return _built(self.node, leaves)

    def batch(self, rows: Sequence[Any]) -> Any:
        """Values as a batch of the same structure: arrays [len(rows), ...], tuples at the listed leaves."""
        return _batch(self.node, rows, self.listed)

    def to_json(self) -> Any:
        """The nodes as JSON values."""
        return _to_json(self.node)

    @classmethod
    def from_json(cls, data: Any, listed: frozenset[str] = frozenset()) -> Tree:
        """The inverse of `to_json`; ValueError for anything else."""
        return cls(_from_json(data, MAX_DEPTH), listed)


def leaf_spaces(space: gs.Space[Any]) -> list[tuple[str, gs.Space[Any]]]:
    """The leaves of a space with their paths, in order."""
    return list(_leaf_spaces("", space))


def insist_on_nodes(role: str, space: gs.Space[Any]) -> None:
    """Raise UserError for a Dict or Tuple that is empty, too deep, has odd keys, or gives two leaves the same path."""
    _insist(role, "", space, MAX_DEPTH)
    paths = [path for path, _ in leaf_spaces(space)]
    twice = next((path for i, path in enumerate(paths) if path in paths[:i]), None)
    if twice is not None:
        raise UserError(
            f"Two parts of the {role} space have the path '{twice}'.",
            remedy="Give them keys without '/', so that their paths differ.",
            code=f"unsupported-{role}-space",
        )


def join(path: str, key: object) -> str:
    """The path of a part."""
    return f"{path}/{key}" if path else str(key)


def _node(path: str, space: gs.Space[Any]) -> Node:
    if isinstance(space, gs.Dict):
        return {key: _node(join(path, key), part) for key, part in space.spaces.items()}
    if isinstance(space, gs.Tuple):
        return tuple(_node(join(path, i), part) for i, part in enumerate(space.spaces))
    return path


def _leaf_spaces(path: str, space: gs.Space[Any]) -> Iterator[tuple[str, gs.Space[Any]]]:
    if isinstance(space, gs.Dict):
        for key, part in space.spaces.items():
            yield from _leaf_spaces(join(path, key), part)
    elif isinstance(space, gs.Tuple):
        for i, part in enumerate(space.spaces):
            yield from _leaf_spaces(join(path, i), part)
    else:
        yield path, space


def _insist(role: str, path: str, space: gs.Space[Any], depth: int) -> None:
    if isinstance(space, gs.Dict | gs.Tuple) and not depth:
        raise unsupported(role, "", space, f"At most {MAX_DEPTH} dictionaries and tuples may lie in one another.")
    if isinstance(space, gs.Dict):
        if not space.spaces:
            raise unsupported(role, path, space, "The dictionary is empty: give it at least one key.")
        odd = [key for key in space.spaces if type(key) is not str or not key]
        if odd:
            raise unsupported(role, path, space, f"Its key {odd[0]!r} must be a word.")
        for key, part in space.spaces.items():
            _insist(role, join(path, key), part, depth - 1)
    elif isinstance(space, gs.Tuple):
        if not space.spaces:
            raise unsupported(role, path, space, "The tuple is empty: give it at least one part.")
        for i, part in enumerate(space.spaces):
            _insist(role, join(path, i), part, depth - 1)


def _paths(node: Node) -> Iterator[str]:
    if isinstance(node, str):
        yield node
        return
    for part in node.values() if isinstance(node, dict) else node:
        yield from _paths(part)


def _take(node: Node, value: Any, path: str, found: dict[str, Any]) -> None:
    if isinstance(node, str):
        found[node] = value
    elif isinstance(node, dict):
        if not isinstance(value, dict) or not node.keys() <= value.keys():
            raise MisfitError(path, f"a dictionary with the keys {sorted(node)}", value)
        for key, part in node.items():
            _take(part, value[key], join(path, key), found)
    else:
        if not isinstance(value, tuple | list) or len(value) != len(node):
            raise MisfitError(path, f"a tuple of {len(node)} parts", value)
        for i, part in enumerate(node):
            _take(part, value[i], join(path, i), found)


def _built(node: Node, leaves: Mapping[str, Any]) -> Any:
    if isinstance(node, str):
        return leaves[node]
    if isinstance(node, dict):
        return {key: _built(part, leaves) for key, part in node.items()}
    return tuple(_built(part, leaves) for part in node)


def _batch(node: Node, rows: Sequence[Any], listed: frozenset[str]) -> Any:
    if isinstance(node, str):
        return tuple(rows) if node in listed else np.array(rows)
    if isinstance(node, dict):
        return {key: _batch(part, [row[key] for row in rows], listed) for key, part in node.items()}
    return tuple(_batch(part, [row[i] for row in rows], listed) for i, part in enumerate(node))


def _to_json(node: Node) -> Any:
    if isinstance(node, str):
        return node
    if isinstance(node, dict):
        return {"dict": [[key, _to_json(part)] for key, part in node.items()]}  # pairs: JSON may sort the keys
    return {"tuple": [_to_json(part) for part in node]}


def _from_json(data: Any, depth: int) -> Node:
    if isinstance(data, str):
        return data
    if depth and isinstance(data, dict) and len(data) == 1:
        ((kind, parts),) = data.items()
        if kind == "dict" and isinstance(parts, list) and parts and all(map(_is_pair, parts)):
            return {key: _from_json(part, depth - 1) for key, part in parts}
        if kind == "tuple" and isinstance(parts, list) and parts:
            return tuple(_from_json(part, depth - 1) for part in parts)
    raise ValueError(f"{str(data)[:100]} is no structure of a space")


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)
