"""What a vector of environments hands to the training loop, whatever its backend and autoreset mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from steadyrl.envs.failure import Failure
from steadyrl.envs.snapshots.state import Ability
from steadyrl.spaces import ObsTree

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class EpisodeRecord:
    """One finished training episode; `return_` is the raw sum of rewards, `length` counts environment steps."""

    env_index: int
    return_: float
    length: int
    terminated: bool
    truncated: bool
    success: bool | None
    seed: int | None


@dataclass(frozen=True)
class BrokenEpisode:
    """An episode that its environment's failure cut off: not part of any statistic.

    `return_` and `length` are what it came to; where an environment failed to start once more, they are 0.
    """

    env_index: int
    return_: float
    length: int
    seed: int | None
    reason: str
    failure: Failure | None


class Step(NamedTuple):
    """One vector step, dense over N environments; arrays belong to the caller."""

    obs: ObsTree  # leaves [N, ...]: what the policy acts on next
    final_obs: ObsTree  # leaves [N, ...]: the true successor; equals obs where not done
    rewards: FloatArray  # [N], raw
    terminated: BoolArray  # [N]
    truncated: BoolArray  # [N]
    valid: BoolArray  # [N], False for a row that an autoreset made up
    episodes: list[EpisodeRecord]  # the episodes that ended in this step
    broken: BoolArray | None = None  # [N], environments that failed and were started anew: their row is made up, and
    # their unfinished episode is to be dropped; None where there are none
    lost: tuple[BrokenEpisode, ...] = ()  # those episodes, and the new ones that failed to start


@dataclass(frozen=True)
class EnvSpec:
    """What is known of an environment before the first step."""

    id: str
    obs_space: gym.Space[Any]
    action_space: gym.Space[Any]
    max_episode_steps: int | None
    backend: str  # sync, async, envpool, native


class VecEnv(Protocol):
    """The one interface between environments and the training loop."""

    spec: EnvSpec
    num_envs: int
    live: BoolArray  # [N], False where the next step's row will be made up by an autoreset

    def reset(self, seeds: list[int]) -> ObsTree:
        """Start every environment with its own seed, once; later episodes draw on."""
        ...

    def step(self, actions: npt.NDArray[Any]) -> Step:
        """Step all environments with the environment's own actions, [N, ...]."""
        ...

    def ability(self) -> Ability:
        """How the state can be saved, as far as it can be known."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything that is needed to go on exactly: a plain value, for `steadyrl.envs.snapshot.flatten`."""
        ...

    def restore(self, state: dict[str, Any]) -> ObsTree:
        """Go on where `state` was taken, in environments newly made; the observations to act on, leaves [N, ...]."""
        ...

    def close(self) -> None:
        """Close every environment; a second call does nothing."""
        ...
