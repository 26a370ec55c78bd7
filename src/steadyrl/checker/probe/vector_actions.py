"""Actions for all environments of a vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector.utils import batch_space

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe.masks import mask_of, permitted
from steadyrl.checker.probe.policies import at_random, corners
from steadyrl.checker.probe.vectors import entry_of, row_of
from steadyrl.envs.masks import METHOD

_STRETCH = 40  # steps after which another way to act begins


def vector_actions(vector: Any, *, asks: bool = False) -> Callable[[int, Any, Any], Any]:
    """Random actions, with stretches of extreme ones, which ends by failure need; each as the masks allow.

    Args:
        vector: Whose actions they are.
        asks: Each of its environments has a method that gives its mask.

    Returns:
        A function of step, observations and infos, which are those of the vector, or for each environment its own.
    """
    single = vector.single_action_space
    space = batch_space(single, vector.num_envs)
    space.seed(SEED)
    extremes = [action for _, action in corners(single)]
    sample = at_random(single)(SEED)

    def actions(step: int, obs: Any, infos: Any) -> Any:
        told = space.sample()
        if not isinstance(told, np.ndarray):
            return told
        stretch = step // _STRETCH % 3
        given = vector.call(METHOD) if asks else [None] * vector.num_envs
        for i in range(vector.num_envs):
            if stretch and extremes:
                told[i] = extremes[(i + stretch) % len(extremes)]
            mask = _mask(single, obs, infos[i] if isinstance(infos, list) else infos, i)
            mask = given[i] if mask is None else mask
            if mask is not None and not permitted(single, mask, told[i]):
                told[i] = sample(None, mask)
        return told

    return actions


def _mask(single: Any, obs: Any, infos: Any, i: int) -> Any:
    """The mask that one environment told; None where there is none."""
    given = {key: entry_of(infos, key, i) for key in ("action_mask", "action_masks")}
    return mask_of(single, row_of(obs, i) if isinstance(obs, dict) else None, given)
