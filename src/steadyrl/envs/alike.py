"""Environments that are to be stepped together have to be alike, and different ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from steadyrl.envs.wrappers import Canonical
from steadyrl.errors import UserError
from steadyrl.spaces import ActionSpec, ObsSpec
from steadyrl.spaces.tree import leaf_spaces


def insist_on_alike(made: Sequence[Canonical], name: str) -> None:
    """Raise UserError where the last of these has other spaces than the first or is one of the others."""
    first, last = made[0], made[-1]
    if differ(first.observation_space, last.observation_space) or differ(first.action_space, last.action_space):
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


def differ(one: gym.Space[Any], other: gym.Space[Any]) -> bool:
    """Whether two spaces differ; of a class that does not say when two of it are equal, the form alone is compared."""
    mine, theirs = leaf_spaces(one), leaf_spaces(other)
    if type(one) is not type(other) or [path for path, _ in mine] != [path for path, _ in theirs]:
        return True
    return any(_leaves_differ(a, b) for (_, a), (_, b) in zip(mine, theirs, strict=True))


def _leaves_differ(one: gym.Space[Any], other: gym.Space[Any]) -> bool:
    if type(one).__eq__ in (object.__eq__, gym.Space.__eq__):
        return (type(one), one.shape, one.dtype) != (type(other), other.shape, other.dtype)
    return bool(one != other)


def unequal(name: str) -> UserError:
    """The error where spaces differ."""
    return UserError(
        f"The environments that {name} makes have different spaces.",
        remedy="Let every call make an environment with the same observation and action space.",
        code="env-spaces",
    )
