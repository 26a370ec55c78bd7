"""Action masks beneath wrappers that take other actions than the chosen one: what was forbidden would be done.

A mask belongs to the moment in which an action is chosen. A wrapper that repeats, holds or delays actions takes them at
other moments, of which the mask said nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym

from steadyrl.envs.around import ActionRepeat, DelayActions
from steadyrl.envs.atari import AtariFrames
from steadyrl.envs.drawing import StickyActions
from steadyrl.envs.score import RawScore
from steadyrl.errors import UserError

_NO_SOURCES = ("steadyrl", "gymnasium")  # packages whose wrappers put no masks into `info`


class _Holder(NamedTuple):
    kind: type | tuple[type, ...]
    does: str
    cure: str


_HOLDERS = (
    _Holder(ActionRepeat, "action_repeat takes each action several times", "action_repeat (--action-repeat)"),
    _Holder(DelayActions, "delay_actions takes actions later", "delay_actions (--delay-actions)"),
    _Holder(
        (StickyActions, gym.wrappers.StickyAction),
        "sticky_actions takes the last action again",
        "sticky_actions (--sticky-actions), or a StickyAction of your own,",
    ),
    _Holder(
        AtariFrames,
        "Atari preprocessing holds each action for several frames",
        "it (--atari off) or its frame skip (--frame-skip 1)",
    ),
    *(
        _Holder(getattr(gym.wrappers, name), f"{name} takes each action several times", f"the wrapper {name}")
        for name in ("RepeatAction", "MaxAndSkipObservation", "AtariPreprocessing")
        if hasattr(gym.wrappers, name)  # older versions lack RepeatAction
    ),
)


def insist_on_free(env: gym.Env[Any, Any], name: str, method: str | None = None) -> None:
    """Raise UserError where the masks of an environment come from beneath a wrapper that holds actions.

    Wrappers of other packages may put masks into `info` themselves. Around them nothing is known of what lies beneath
    but what the innermost wrapper of this library saw.

    Args:
        env: The environment with its wrappers, which gives masks.
        name: How errors call it.
        method: What is asked for masks; None where they stand in `info`.
    """
    unsure, layer = False, env
    while isinstance(layer, gym.Wrapper) and not (method is not None and hasattr(layer, method)):
        holder = next((holder for holder in _HOLDERS if isinstance(layer, holder.kind) and _holds(layer)), None)
        if holder is not None and (method is not None or not unsure or _told_beneath(layer.env)):
            raise UserError(
                f"{name} gives action masks, but {holder.does}, whatever the masks forbid by then.",
                remedy=f"Leave {holder.cure} out, or train without masks: action_masks='off' (--action-masks off).",
                code="mask-held",
            )
        unsure = unsure or type(layer).__module__.partition(".")[0] not in _NO_SOURCES
        layer = layer.env


def _holds(layer: gym.Wrapper[Any, Any, Any, Any]) -> bool:
    """Whether a wrapper of these kinds does anything, with its settings: frame_skip 1 holds nothing."""
    return not isinstance(layer, AtariFrames) or layer.frame_skip > 1


def _told_beneath(env: gym.Env[Any, Any]) -> bool:
    """Whether the bare environment told a mask at its last reset, as far as anybody looked."""
    layer = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, RawScore):
            return layer.told_mask
        layer = layer.env
    return False
