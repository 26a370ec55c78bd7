"""Action masks as an environment gives them: found, read as a training reads them, and held against the actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from steadyrl.checker.probe.driver import Driver
from steadyrl.checker.probe.survey import Place
from steadyrl.envs.masks import KEY, METHOD, NEAR
from steadyrl.errors import UserError
from steadyrl.spaces import ActionSpec
from steadyrl.spaces.masks import mask_width, read_mask

Note = Callable[[str, Place, str], None]


class Mask(NamedTuple):
    """A mask of the actions that are valid now.

    Attributes:
        value: As the environment gave it; None where there is none, or none of these actions.
        unused: Where it was found, where no training takes it from there; empty where trainings do.
    """

    value: Any
    unused: str = ""


def find_mask(space: gym.Space[Any], obs: Any, info: Any, env: Any = None) -> Mask:
    """The mask that a training takes, from info or the environment's method; else one that it does not take."""
    told = info if isinstance(info, dict) else {}
    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        return Mask(None, f"info['{KEY}']" if told.get(KEY) is not None else "")
    free = "" if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else f"info['{KEY}']"
    if told.get(KEY) is not None:
        return Mask(told[KEY], free)
    method = None if env is None else method_of(env)
    given = method() if callable(method) else None
    if given is not None:
        return Mask(given, free and f"{METHOD}()")
    if method is not None and not callable(method):
        return Mask(method, f"the attribute {METHOD}, which is no method,")
    for holder, where in ((told, "info['{}']"), (obs, "the part '{}' of the observation")):
        for key in NEAR:
            if isinstance(holder, dict) and holder.get(key) is not None:
                return Mask(holder[key], where.format(key))
    return Mask(None)


def method_of(env: Any) -> Any:
    """What the environment or one of its wrappers has for masks; None where it cannot be asked, either."""
    try:
        return env.get_wrapper_attr(METHOD) if env.has_wrapper_attr(METHOD) else None
    except Exception:  # a `__getattr__` of its own
        return None


def mask_of(space: gym.Space[Any], obs: Any, info: Any, env: Any = None) -> Any:
    """The mask of valid actions in whatever form, for whoever plays; None without."""
    return find_mask(space, obs, info, env).value


def mask_parts(space: gym.Space[Any], mask: Any) -> list[Any] | None:
    """The mask as booleans for each choice of a Discrete or MultiDiscrete; None where it is none, or allows nothing."""
    if mask is None or not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return None
    spec = ActionSpec.of(space)
    try:
        return np.split(read_mask(mask, spec, ""), np.cumsum(spec.nvec)[:-1])
    except UserError:
        return None


def permitted(space: gym.Space[Any], mask: Any, action: Any) -> bool:
    """Whether a mask allows an action; what is no mask allows all."""
    parts = mask_parts(space, mask)
    if parts is None:
        return True
    chosen = (np.asarray(action) - np.asarray(getattr(space, "start", 0))).ravel()
    return all(bool(part[int(i)]) for part, i in zip(parts, chosen, strict=True))


def mask_fault(space: gym.Space[Any], mask: Any) -> tuple[str, str] | None:
    """What is wrong with a mask of a state in which one more action is asked for: a name, and what in words."""
    if mask is None:
        return None
    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        flags = np.asarray(mask)
        empty = flags.size and flags.dtype.kind in "biuf" and not flags.astype(bool).any()
        return ("mask-empty", "no action is allowed") if empty else None
    spec = ActionSpec.of(space)
    try:
        read_mask(mask, spec, "")
    except UserError as error:
        if error.code == "mask-empty":
            return "mask-empty", "no action is allowed"
        return "mask-shape", f"{_form(mask)} for {mask_width(spec)} truth values"
    return None


def _form(mask: Any) -> str:
    """In words, what was given as a mask."""
    try:
        array = np.asarray(mask)
    except (ValueError, TypeError, RuntimeError):
        return f"{len(mask)} parts"
    return f"shape {array.shape}" if array.dtype.kind in "biuf" else f"the type {type(mask).__name__}"


class MaskWatch:
    """Holds the masks of many episodes against what a training makes of them.

    Args:
        space: Of the actions.
        note: Takes what was seen: its name, where, and what in words.
    """

    def __init__(self, space: gym.Space[Any], note: Note) -> None:
        self._space, self._note = space, note
        self._masked: bool | None = None  # whether a training would use masks, as the first reset decides

    def asked(self, driver: Driver, place: Place) -> Any:
        """The mask of a state in which one more action is asked for, or None."""
        found = find_mask(self._space, driver.obs, driver.info, driver.env)
        self._look(found, place)
        taken = found.value is not None and not found.unused
        first = self._masked is None
        self._masked = taken if first else self._masked
        if first and found.unused:
            self._note("mask-unused", place, found.unused)
        if taken != self._masked:
            self._note("mask-missing", place, "one" if taken else "none")
        return found.value

    def cut(self, driver: Driver, place: Place) -> None:
        """The episode was truncated in this step: DQN and SAC look at what could have been done next."""
        if self._masked:
            found = find_mask(self._space, driver.obs, driver.info, driver.env)
            if found.value is None or found.unused:
                self._note("mask-cut", place, "none")
            else:
                self._look(found, place)

    def _look(self, found: Mask, place: Place) -> None:
        fault = mask_fault(self._space, found.value)
        if fault is not None:
            self._note(fault[0], place, fault[1])
