"""A policy that plays: it remembers from step to step what it has to, and does only what masks allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from steadyrl.envs.masks import missing_mask
from steadyrl.envs.wrappers import Canonical
from steadyrl.nn.policy import Policy
from steadyrl.seeding import Stream
from steadyrl.spaces import ObsTree

if TYPE_CHECKING:
    from steadyrl.training.agent import Agent


class Player:
    """Acts in episodes that run side by side.

    Args:
        policy: Acts.
        count: How many episodes there are at a time.
        stream: Randomness of sampled actions; None acts by the most likely ones.
    """

    def __init__(self, policy: Policy, count: int, stream: Stream | None) -> None:
        self._policy = policy
        self._stream = stream
        self._state = policy.initial_state(count)
        self._starts = np.ones(count, dtype=np.bool_)

    def act(self, obs: ObsTree, rows: Sequence[int]) -> npt.NDArray[Any]:
        """Environment actions for raw observations of the episodes in these rows, leaves [len(rows), ...]."""
        index = np.array(rows)
        actions, self._state[index] = self._policy.respond(
            obs, self._state[index], self._starts[index], stream=self._stream
        )
        self._starts[index] = False
        return actions

    def begin(self, rows: npt.NDArray[np.bool_] | int) -> None:
        """The next observation of these rows is the first of an episode."""
        self._starts[rows] = True


class Filmed:
    """An agent that plays single episodes by its most likely actions, in environments that are made for it.

    Args:
        agent: Who plays.
        make: Makes an environment.
    """

    def __init__(self, agent: Agent, make: Callable[[], Canonical]) -> None:
        self._agent = agent
        self._make = make
        self._env: Canonical | None = None
        self._state: Any = None

    def make(self) -> Canonical:
        """Another environment, for the next episode."""
        self._env, self._state = self._make(), None
        return self._env

    def __call__(self, obs: Any) -> npt.NDArray[Any]:
        """The action for the environment's last observation."""
        assert self._env is not None
        mask = None
        if self._agent.policy.masked:
            mask = self._env.masks.last
            if mask is None:
                raise missing_mask(self._env.name, self._env.elapsed)
        action, self._state = self._agent.predict(
            obs, self._state, episode_start=self._env.elapsed == 0, deterministic=True, action_masks=mask
        )
        return action
