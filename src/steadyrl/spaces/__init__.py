"""Gymnasium spaces <-> plain arrays.

An observation becomes a tree of arrays, held flat: `{path: array}`, with the one path `""` for a space without parts.
An action of the policy becomes the environment's own action. Nothing here imports torch, and the environment's spaces
are only read.
"""

from __future__ import annotations

from steadyrl.spaces.action import ActionKind, ActionSpec
from steadyrl.spaces.action_tree import ActionTree
from steadyrl.spaces.leaf import Leaf, LeafKind
from steadyrl.spaces.observation import ObsSpec, ObsTree
from steadyrl.spaces.precision import is_wide, precision_note, precision_notes
from steadyrl.spaces.reading import Reading
from steadyrl.spaces.tree import Tree

__all__ = [
    "ActionKind",
    "ActionSpec",
    "ActionTree",
    "Leaf",
    "LeafKind",
    "ObsSpec",
    "ObsTree",
    "Reading",
    "Tree",
    "is_wide",
    "precision_note",
    "precision_notes",
]
