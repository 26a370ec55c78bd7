"""Which arrays a replay has, and how large they are: known before torch is imported or anything is allocated."""

from __future__ import annotations

import numpy as np

from steadyrl.data.arrays import ArraySpec, Layout, layout_bytes
from steadyrl.data.frames import Frames, frame_layout
from steadyrl.data.sum_tree import SumTree
from steadyrl.spaces import ActionSpec, Leaf, ObsSpec


def transitions(
    rows: int,
    num_envs: int,
    obs_spec: ObsSpec,
    action_spec: ActionSpec,
    frames: Frames | None = None,
    ends: int | None = None,
) -> Layout:
    """Observations (the first leaf as frames where it is stacked so), actions and what followed, all [rows, N, ...]."""
    lead = (rows, num_envs)
    width = () if action_spec.kind == "discrete" else (action_spec.size,)
    whole = obs_spec.leaves if frames is None else obs_spec.leaves[1:]
    room = {leaf.path: ArraySpec((*lead, *leaf.stored_shape), _kept_dtype(leaf)) for leaf in whole}
    seen = {f"{which}/{path}": spec for which in ("obs", "next_obs") for path, spec in room.items()}
    if frames is not None:
        seen |= frame_layout(rows, num_envs, obs_spec.leaves[0], frames, ends)
    return {
        **seen,
        "actions": ArraySpec((*lead, *width), action_spec.stored_dtype),
        "rewards": ArraySpec(lead, np.float32),
        "terminated": ArraySpec(lead, np.bool_),
        "truncated": ArraySpec(lead, np.bool_),
        "valid": ArraySpec(lead, np.bool_),
    }


def episodes(rows: int, num_envs: int) -> Layout:
    """`episode` is each row's place in `first` and `last`, vector steps (-1: not finished); all [rows, N]."""
    return dict.fromkeys(("episode", "first", "last"), ArraySpec((rows, num_envs), np.int64))


def replay_bytes(
    capacity: int,
    num_envs: int,
    obs_spec: ObsSpec,
    action_spec: ActionSpec,
    *,
    prioritized: bool = False,
    hindsight: bool = False,
    frames: Frames | None = None,
) -> int:
    """Bytes that a replay of so many transitions takes once it is full."""
    rows = capacity // num_envs
    size = layout_bytes(transitions(rows, num_envs, obs_spec, action_spec, frames))
    if hindsight:
        size += layout_bytes(episodes(rows, num_envs))
    if prioritized:
        size += SumTree.bytes_for(rows * num_envs)
    return size


def _kept_dtype(leaf: Leaf) -> type[np.generic]:
    return np.uint8 if leaf.dtype == "uint8" and not leaf.nvec else leaf.stored_dtype
