"""Action masks: which actions are allowed, kept as one more leaf beside those of the observation they belong to."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steadyrl.errors import UserError
from steadyrl.spaces.action import ActionSpec
from steadyrl.spaces.leaf import Leaf
from steadyrl.spaces.observation import ObsSpec

# The path of the mask in a stored tree, [N, width], 1 for allowed: no key of a user's dictionary is likely to be it.
MASK = "<action mask>"

Bools = npt.NDArray[np.bool_]


def mask_width(spec: ActionSpec) -> int:
    """Entries of a mask: one for each value of each entry of an action, in order; 0 for actions that have no masks."""
    return sum(spec.nvec) if spec.kind in ("discrete", "multidiscrete") else 0


class MaskedSpec(ObsSpec):
    """The leaves of an observation and its mask's, for those that store both; the environment knows nothing of it.

    Args:
        obs_spec: The observation's.
        action_spec: What the mask is for.
    """

    def __init__(self, obs_spec: ObsSpec, action_spec: ActionSpec) -> None:
        self.leaves = (*obs_spec.leaves, Leaf(MASK, "multibinary", (mask_width(action_spec),), "uint8"))
        self.by_path = {leaf.path: leaf for leaf in self.leaves}
        self.tree, self.converters = obs_spec.tree, obs_spec.converters


def read_mask(value: Any, spec: ActionSpec, where: str) -> Bools:
    """What an environment or a user gave as the mask of one observation, fresh, [width].

    A number other than 0 allows. The shape does not matter, the number of entries does. For MultiDiscrete it may also
    be in parts, one for each entry of the action, as Gymnasium's `MultiDiscrete.sample(mask=...)` takes them.

    Args:
        value: The mask.
        spec: What it is for.
        where: How errors name its origin, such as `Maze-v0 (environment 2), in step 7 of its episode,`.

    Raises:
        UserError: it is no mask of this size, or allows nothing.
    """
    value = joined_mask(value, spec, where)
    masks = read_masks(np.asarray(value).reshape(1, -1) if _is_array(value) else value, spec, where)
    return np.asarray(masks[0])


def joined_mask(value: Any, spec: ActionSpec, where: str) -> Any:
    """The parts of a MultiDiscrete's mask one after the other, [width]; anything that is no such parts as it is.

    Args:
        value: What was given; nested tuples or lists of arrays are parts, as is an array of objects.
        spec: What it is for.
        where: How errors name its origin.

    Raises:
        UserError: there are other parts than the action has entries, or one is of another size.
    """
    if spec.kind != "multidiscrete" or not (isinstance(value, tuple | list) or _is_objects(value)):
        return value
    parts = _rows(value)
    if parts is None or (_is_array(value) and not 1 < len(parts) == len(spec.nvec)):
        return value
    odd = next((i for i, part in enumerate(parts[: len(spec.nvec)]) if len(part) != spec.nvec[i]), None)
    if odd is None and len(parts) == len(spec.nvec):
        return np.concatenate(parts)
    told = f"{len(parts)} parts, but the actions have {len(spec.nvec)} entries"
    if odd is not None:
        told = f"{len(parts[odd])} entries in part {odd}, but entry {odd} of the action has {spec.nvec[odd]} values"
    raise UserError(
        f"The action mask of {where} has {told}.",
        remedy=f"Give {wanted_mask(spec)}, or use --action-masks off.",
        code="mask-size",
    )


def _rows(value: Any) -> list[npt.NDArray[Any]] | None:
    """Arrays of one dimension in nested tuples or lists, in order; None where anything else is among them."""
    if _is_array(value):
        array = np.asarray(value)
        return list(array.reshape(-1, array.shape[-1])) if array.ndim and array.size else None
    if not (isinstance(value, tuple | list) or _is_objects(value)):
        return None
    rows: list[npt.NDArray[Any]] = []
    for part in value:
        found = _rows(part)
        if found is None:
            return None
        rows += found
    return rows or None


def read_masks(values: Any, spec: ActionSpec, where: str) -> Bools:
    """The same for a batch of masks, [N, ...]; [N, width].

    Raises:
        UserError: they are no masks of this size, or one allows nothing.
    """
    width = mask_width(spec)
    if not _is_array(values):
        raise UserError(
            f"The action mask of {where} is a {type(values).__name__} that is not an array of truth values.",
            remedy=f"Give {wanted_mask(spec)}, or use --action-masks off.",
            code="mask-type",
        )
    array = np.asarray(values)
    entries = array[0].size if array.ndim and len(array) else array.size
    if array.ndim == 0 or entries != width:
        raise UserError(
            f"The action mask of {where} has {entries} {'entry' if entries == 1 else 'entries'}, but the actions have "
            f"{width}.",
            remedy=f"Give {wanted_mask(spec)}, or use --action-masks off.",
            code="mask-size",
        )
    masks: Bools = array.reshape(len(array), width) != 0
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise UserError(f"The action mask of {where} holds NaN.", remedy=f"Give {wanted_mask(spec)}.", code="mask-type")
    nothing = _nothing_allowed(masks, spec)
    if nothing is not None:
        entry = "" if spec.kind == "discrete" else f" for entry {nothing[1]} of the action"
        raise UserError(
            f"The action mask of {where} allows nothing{entry}.",
            remedy="Allow at least one action, or end the episode (terminated) where there is none.",
            code="mask-empty",
        )
    return masks


def _nothing_allowed(masks: Bools, spec: ActionSpec) -> tuple[int, int] | None:
    """The first row of masks [N, width] and the entry of the action for which it allows no value; None where all do."""
    if spec.kind == "discrete":
        some = masks.any(axis=1, keepdims=True)
    else:
        some = np.logical_or.reduceat(masks, np.cumsum((0, *spec.nvec[:-1])), axis=1)
    if some.all():
        return None
    row, entry = np.argwhere(~some)[0]
    return int(row), int(entry)


def pick_allowed(masks: npt.NDArray[Any], uniform: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """One allowed action a row by numbers in [0, 1), [N]: each is equally likely under masks [N, A]."""
    allowed = masks != 0
    count = allowed.sum(axis=1)
    wanted = np.minimum((uniform * count).astype(np.int64), count - 1)
    return np.asarray((allowed.cumsum(axis=1) > wanted[:, None]).argmax(axis=1))


def _is_objects(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object and value.ndim > 0


def _is_array(value: Any) -> bool:
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except (ValueError, TypeError, RuntimeError):
        return False


def wanted_mask(spec: ActionSpec) -> str:
    """In words, what a mask has to be."""
    if spec.kind == "discrete":
        return f"{spec.nvec[0]} truth values, one for each action"
    return (
        f"{mask_width(spec)} truth values, those of each entry of the action one after the other, or a tuple of arrays"
    )
