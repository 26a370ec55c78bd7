"""Environments that are to be stepped together have to be alike, and different ones."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium as gym

from steadyrl.envs.wrappers import Canonical
from steadyrl.errors import UserError
from steadyrl.spaces import ActionSpec, ObsSpec


def insist_on_alike(made: Sequence[Canonical], name: str) -> None:
    """Raise UserError where the last of these has other spaces than the first or is one of the others."""
    first, last = made[0], made[-1]
    if (last.observation_space, last.action_space) != (first.observation_space, first.action_space):
        raise unequal(name)
    if any(env.unwrapped is last.unwrapped for env in made[:-1]):
        raise UserError(
            f"{name} returned the same environment twice.",
            remedy="Let the function make a new environment each time it is called.",
            code="env-instance",
        )


def insist_on_supported(observation: gym.Space[object], action: gym.Space[object], known: ObsSpec | None) -> None:
    """Raise UserError for spaces that no policy works with; `known` says how observations are stored, if it is."""
    if known is None:
        ObsSpec.of(observation)
    ActionSpec.of(action)


def unequal(name: str) -> UserError:
    """The error where spaces differ."""
    return UserError(
        f"The environments that {name} makes have different spaces.",
        remedy="Let every call make an environment with the same observation and action space.",
        code="env-spaces",
    )
