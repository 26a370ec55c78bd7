"""What an episode was made of: how it began and every action since, so that it can be run again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

MAX_ACTIONS = 1_000_000  # an episode without an end must not fill the memory


@dataclass
class EpisodeTrace:
    """The record of one episode of one environment.

    Attributes:
        seed: What reset was given; None where the environment drew on.
        options: What reset was given.
        random_state: Of the environment's own generator just before reset; None where a seed was given or it has none.
        actions: As the environment got them, in order.
        whole: False where actions beyond `MAX_ACTIONS` were not kept.
    """

    seed: int | None = None
    options: dict[str, Any] | None = None
    random_state: dict[str, Any] | None = None
    actions: list[Any] = field(default_factory=list)
    whole: bool = True

    @classmethod
    def beginning(cls, env: gym.Env[Any, Any], seed: int | None, options: dict[str, Any] | None) -> EpisodeTrace:
        """The record of the episode that `env.reset(seed=seed, options=options)` is about to start."""
        generator = None if seed is not None else getattr(env.unwrapped, "_np_random", None)
        bits = getattr(generator, "bit_generator", None)
        return cls(seed, options, None if bits is None else bits.state)

    def add(self, action: Any) -> None:
        """Keep an action, before the environment has taken it."""
        if len(self.actions) < MAX_ACTIONS:
            # A copy of an array: an environment may write into the one it gets.
            self.actions.append(action.copy() if isinstance(action, np.ndarray) else action)
        else:
            self.whole = False
