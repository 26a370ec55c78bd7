"""What a policy answers to what a user gives it: raw observations, a state, masks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from steadyrl.envs.shown import shown
from steadyrl.errors import UserError
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ActionTree, ObsTree
from steadyrl.spaces.masks import MASK, joined_mask, mask_width, read_mask, read_masks, wanted_mask
from steadyrl.training.guards import require_sane

Floats = npt.NDArray[np.float32]


def predicted(
    policy: Policy, obs: Any, state: Any, episode_start: Any, action_masks: Any, stream: Stream | None
) -> tuple[npt.NDArray[Any], Any]:
    """Actions and the state for the next call, as `Agent.predict` documents them.

    Raises:
        UserError: an argument is of another shape than the policy takes, or holds what nothing can be computed from.
    """
    single, tree = _stored(policy, obs, action_masks)
    if policy.recurrent is None:
        return _given(policy, policy.predict(tree, stream), single), state
    before, starts = _remembered(policy, tree, state, episode_start, single)
    actions, after = policy.respond(tree, before, starts, stream=stream)
    return _given(policy, actions, single), after[0] if single else after


def insist_on_masks(policy: Policy, undecided: bool) -> None:
    """Raise UserError for a policy that was not made to be told what is allowed, nor is about to be."""
    if not policy.masked and not (undecided and mask_width(policy.action_spec)):
        raise UserError(
            "action_masks were given, but this policy was not made for masks.",
            remedy="Leave action_masks out, or train with action_masks='on' (--action-masks on).",
            code="unsupported",
        )


def _given(policy: Policy, actions: npt.NDArray[Any], single: bool) -> Any:
    """Environment actions [B, ...] in the structure of the action space, one alone where there was one observation."""
    spec = policy.action_spec
    if isinstance(spec, ActionTree):
        return spec.unpacked(actions, 0 if single else None)
    return actions[0] if single else actions


def valued(policy: Policy, obs: Any, state: Any, episode_start: Any, action_masks: Any = None) -> Floats:
    """V as `Agent.value` documents it.

    Raises:
        UserError: as `predicted`.
    """
    single, tree = _stored(policy, obs, action_masks)
    normalised = policy.normalise(tree)
    if policy.recurrent is not None:
        before, starts = _remembered(policy, tree, state, episode_start, single)
        found = policy.recurrent.values(normalised, torch.from_numpy(before), starts)
    else:
        found = policy.values(normalised)
    values = found.numpy() * np.float32(policy.value_scale)
    return np.asarray(values[0] if single else values)


def _stored(policy: Policy, obs: Any, action_masks: Any) -> tuple[bool, ObsTree]:
    """Whether the user gave one observation, and what was given as the policy takes it, [B, ...], masks included."""
    single = policy.obs_spec.is_single(obs)
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused
        tree = policy.obs_spec.store(obs, batch=not single)
    require_sane(tree, single)
    if action_masks is not None:
        tree[MASK] = _masks(policy.action_spec, action_masks, _count(tree), single).astype(np.float32)
    return single, tree


def _remembered(
    policy: Policy, tree: ObsTree, state: Any, episode_start: Any, single: bool
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """What the policy remembers of these episodes, [B, S], and where they start, [B]."""
    count = _count(tree)
    return _state(policy, state, count, single), _starts(episode_start, count)


def _count(tree: ObsTree) -> int:
    """How many observations these are."""
    return len(next(iter(tree.values())))


def _masks(spec: ActionSpec, given: Any, count: int, single: bool) -> npt.NDArray[np.bool_]:
    """What is allowed for each observation, [B, width]; for one alone any shape with so many entries will do."""
    wanted = (mask_width(spec),) if single else (count, mask_width(spec))
    if single:
        given = joined_mask(given, spec, "the observation")
    elif isinstance(given, tuple | list):
        given = [joined_mask(mask, spec, f"observation {i} of the batch") for i, mask in enumerate(given)]
    try:
        array = np.asarray(given)
    except (ValueError, TypeError, RuntimeError):  # rows of different lengths, tensors of another device
        array = np.array(None)
    numbers = array.ndim > 0 and array.dtype.kind in "biuf"
    if not numbers or array.size != math.prod(wanted) or (not single and len(array) != count):
        found = f"has shape {array.shape}" if numbers else f"is {shown(given)}"
        whose = "one observation needs" if single else f"{count} observations need"
        raise UserError(
            f"action_masks {found}, but {whose} truth values of shape {wanted}.",
            remedy=f"Give {wanted_mask(spec)}{'' if single else ', for each observation'}.",
            code="mask-type",
        )
    masks = array.reshape(count, -1)
    try:
        return read_masks(masks, spec, "the observation")
    except UserError:
        for i, mask in enumerate(masks if count > 1 else ()):
            read_mask(mask, spec, f"observation {i} of the batch")
        raise


def _state(policy: Policy, given: Any, count: int, single: bool) -> Floats:
    if given is None:
        return policy.initial_state(count)
    try:
        state = np.asarray(given, dtype=np.float32)
    except (ValueError, TypeError):
        state = np.full(1, np.nan, dtype=np.float32)
    wanted = (policy.state_size,) if single else (count, policy.state_size)
    if state.shape != wanted or not np.isfinite(state).all():
        raise UserError(
            f"The state is {type(given).__name__} of shape {state.shape}, not finite numbers of shape {wanted}.",
            remedy="Hand back the state that predict returned, or None at the beginning.",
            code="bad-state",
        )
    return state.reshape(count, policy.state_size)


def _starts(given: Any, count: int) -> npt.NDArray[np.bool_]:
    """From one truth value or as many as there are observations; None is nowhere."""
    try:
        array = np.asarray(False if given is None else given)
    except (ValueError, TypeError, RuntimeError):  # rows of different lengths, tensors of another device
        array = np.array(None)
    truths = array.dtype.kind in "biuf" and bool(np.isin(array, (0, 1)).all())
    if not truths or array.shape not in ((), (1,), (count,)):
        fault = f"has shape {array.shape}, but there are {count} observations"
        raise UserError(
            f"episode_start {fault if truths else f'is {shown(given)}, not truth values'}.",
            remedy="Pass one truth value for each, or one for all.",
            code="bad-value",
        )
    return np.broadcast_to(array.astype(np.bool_), (count,)).copy()
