"""Rules about what is declared: spaces and specification."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from steadyrl.checker.finding import Found, rule
from steadyrl.checker.probe.facts import Facts
from steadyrl.checker.probe.survey import Survey


@rule(
    "SRL-SPC-001",
    "make-raises",
    "error",
    "facts",
    "the environment cannot be made",
    "Correct its constructor, or the arguments that it is given.",
)
def make_raises(facts: Facts) -> Iterator[Found]:
    """The constructor raises."""
    if facts.made is not None and not facts.made.exits:
        yield Found(f"Making it raised {facts.made.error}.", {"value": facts.made.error, "where": facts.made.where})


@rule(
    "SRL-SPC-002",
    "space-missing",
    "error",
    "facts",
    "observation or action space is none",
    "Set it in __init__, for example self.action_space = gymnasium.spaces.Discrete(2).",
)
def space_missing(facts: Facts) -> Iterator[Found]:
    """A space is missing, or something else."""
    for name, value in facts.missing.items():
        yield Found(f"{name} is {value}, which is no gymnasium.Space.", {"key": name, "value": value})


@rule(
    "SRL-SPC-003",
    "space-sample-rejected",
    "error",
    "facts",
    "a space does not contain what it samples itself",
    "Let sample() draw only what contains() accepts; random exploration and wrappers rely on it.",
)
def sample_rejected(facts: Facts) -> Iterator[Found]:
    """`sample()` and `contains()` disagree."""
    for name, value in facts.rejected.items():
        yield Found(f"{name} sampled {value} and does not contain it.", {"key": name, "value": value})


@rule(
    "SRL-SPC-004",
    "space-mutated",
    "error",
    "facts",
    "a space changes while the environment is used",
    "Declare in __init__ a space wide enough for all episodes, and leave it.",
)
def space_mutated(facts: Facts) -> Iterator[Found]:
    """A space is another one after some episodes."""
    if facts.mutated:
        yield Found(f"After some episodes {facts.mutated}.", {"value": facts.mutated})


@rule(
    "SRL-SPC-008",
    "space-mutated",
    "error",
    "survey",
    "a space changes in the course of many episodes",
    "Declare in __init__ a space wide enough for all episodes, and leave it.",
)
def space_mutated_later(survey: Survey) -> Iterator[Found]:
    """A space is another one at the end of some episode."""
    if survey.mutated:
        yield Found(f"After some episodes {survey.mutated}.", {"value": survey.mutated})


@rule(
    "SRL-SPC-005",
    "spec-invalid",
    "error",
    "facts",
    "the specification is that of another environment, or cannot make this one",
    "Leave `spec` to gymnasium.make, which sets it; do not define it in the class.",
)
def spec_invalid(facts: Facts) -> Iterator[Found]:
    """`env.spec` does not lead to the same environment."""
    if facts.spec_fault:
        yield Found(f"Its specification does not hold: {facts.spec_fault}.", {"value": facts.spec_fault})


@rule(
    "SRL-SPC-006",
    "space-invalid",
    "error",
    "facts",
    "bounds of a space are NaN or the wrong way round",
    "Give every entry a lower bound below its upper bound.",
)
def space_invalid(facts: Facts) -> Iterator[Found]:
    """A Box whose bounds cannot be."""
    for name, space in (("observation_space", facts.observation), ("action_space", facts.action)):
        for key, leaf in boxes(space):
            bad = np.isnan(leaf.low.astype(float)) | np.isnan(leaf.high.astype(float)) | (leaf.low > leaf.high)
            if bad.any():
                yield Found(f"{name}{key} has bounds from {leaf.low} to {leaf.high}.", {"key": f"{name}{key}"})


@rule(
    "SRL-SPC-007",
    "obs-unbounded",
    "note",
    "facts",
    "observations have no bounds",
    "Nothing has to be done; bounds, or normalize_obs, help where values are not of order 1.",
)
def obs_unbounded(facts: Facts) -> Iterator[Found]:
    """A Box of observations without finite bounds."""
    free = [key for key, leaf in boxes(facts.observation) if not leaf.is_bounded()]
    if free:
        where = ", ".join(key for key in free if key)
        yield Found(f"The observation space{f' at {where}' if where else ''} is not bounded.", {"key": where})


@rule(
    "SRL-SPC-009",
    "space-empty",
    "error",
    "facts",
    "a space, or a part of one, holds no numbers at all",
    "Leave the part out of the space; an environment without anything to observe or to do has one constant entry.",
)
def space_empty(facts: Facts) -> Iterator[Found]:
    """A shape with a 0 in it, or a Dict or Tuple without parts: networks and buffers have nothing to hold."""
    for name, space in (("observation_space", facts.observation), ("action_space", facts.action)):
        for key, leaf in leaves(space):
            if isinstance(leaf, spaces.Dict | spaces.Tuple):
                yield Found(f"{name}{key} has no parts.", {"key": f"{name}{key}"})
            elif leaf.shape is not None and 0 in leaf.shape:
                yield Found(f"{name}{key} has shape {leaf.shape}.", {"key": f"{name}{key}", "value": str(leaf.shape)})


def leaves(space: object, key: str = "") -> Iterator[tuple[str, gym.Space[Any]]]:
    """Every part of a space that has no parts of its own, with its key."""
    if isinstance(space, spaces.Dict) and space.spaces:
        for name, part in space.spaces.items():
            yield from leaves(part, f"{key}[{name!r}]")
    elif isinstance(space, spaces.Tuple) and space.spaces:
        for i, part in enumerate(space.spaces):
            yield from leaves(part, f"{key}[{i}]")
    elif isinstance(space, gym.Space):
        yield key, space


def boxes(space: object) -> Iterator[tuple[str, spaces.Box]]:
    """Every Box in a space that holds numbers, with its key."""
    for key, leaf in leaves(space):
        if isinstance(leaf, spaces.Box) and leaf.low.size:
            yield key, leaf
