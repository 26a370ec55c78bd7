"""Rules about actions: their bounds, and what the environment does with them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from steadyrl.checker.finding import Found, rule
from steadyrl.checker.probe.acting import Acting
from steadyrl.checker.probe.facts import Facts
from steadyrl.checker.probe.survey import Survey
from steadyrl.checker.rules.spaces import boxes, leaves
from steadyrl.checker.rules.telling import of_seen, of_split

# A Gaussian policy starts with mean 0 and deviation 1 in the action's own units. It reaches three deviations, and draws
# usefully only what lies between the bounds; a tenth of either is little.
_REACH = 3.0
_LITTLE = 0.1
_SEVERAL = 3  # failures with one action of several; a coincidence in one of nine cases at most


@rule(
    "SRL-ACT-001",
    "action-unbounded",
    "warning",
    "facts",
    "a continuous action has no finite bounds",
    "Give the Box finite bounds, such as -1 and 1, and scale inside the environment.",
)
def unbounded(facts: Facts) -> Iterator[Found]:
    """No squashing or rescaling can map an action without bounds."""
    for key, box in _floats(facts):
        free = ~(np.isfinite(box.low) & np.isfinite(box.high)).ravel()
        if free.any():
            i = int(free.argmax())
            low, high = box.low.ravel()[i], box.high.ravel()[i]
            yield Found(
                f"Dimension {i} of the action space{key} goes from {low:g} to {high:g}.",
                {"key": f"{key}[{i}]", "value": f"{low:g} to {high:g}"},
            )


@rule(
    "SRL-ACT-002",
    "action-degenerate",
    "warning",
    "facts",
    "an action has only one possible value",
    "Leave it out of the action space.",
)
def degenerate(facts: Facts) -> Iterator[Found]:
    """There is nothing to choose."""
    for key, box in boxes(facts.action):
        same = (box.low == box.high).ravel()
        if same.any():
            i = int(same.argmax())
            value = float(box.low.ravel()[i])
            yield Found(
                f"Dimension {i} of the action space{key} can only be {value:g}.", {"key": f"{key}[{i}]", "value": value}
            )
    for key, leaf in leaves(facts.action):
        if isinstance(leaf, spaces.Discrete) and int(leaf.n) == 1:
            yield Found(f"The action space{key} has one action.", {"key": key, "value": 1})
        if isinstance(leaf, spaces.MultiDiscrete) and (leaf.nvec == 1).any():
            i = int((leaf.nvec.ravel() == 1).argmax())
            yield Found(f"Dimension {i} of the action space{key} has one choice.", {"key": f"{key}[{i}]", "value": 1})


@rule(
    "SRL-ACT-003",
    "action-scale",
    "warning",
    "facts",
    "the bounds of an action are far from unit scale",
    "Declare -1 to 1 and scale inside the environment, or wrap it in gymnasium.wrappers.RescaleAction.",
)
def scale(facts: Facts) -> Iterator[Found]:
    """What a policy of unit scale reaches of the range, and how much of what it draws is of use."""
    for key, box in _floats(facts):
        for i, (low, high) in enumerate(zip(box.low.ravel().tolist(), box.high.ravel().tolist(), strict=True)):
            if not (math.isfinite(low) and math.isfinite(high)) or low >= high:
                continue
            reach = max(0.0, min(high, _REACH) - max(low, -_REACH)) / (high - low)
            inside = (math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2))) / 2
            if reach < _LITTLE or inside < _LITTLE:
                why = (
                    f"reaches {reach:.1%} of that"
                    if reach < _LITTLE
                    else f"draws only {inside:.1%} of its actions there"
                )
                yield Found(
                    f"Dimension {i} of the action space{key} goes from {low:g} to {high:g}; a policy of unit scale "
                    f"{why}.",
                    {"key": f"{key}[{i}]", "value": f"{low:g} to {high:g}"},
                )
                break


@rule(
    "SRL-ACT-004",
    "action-mutated",
    "error",
    "survey",
    "step writes into the caller's action",
    "Copy it first: action = np.array(action). What is stored for learning would be another action.",
)
def mutated(survey: Survey) -> Iterator[Found]:
    """The action belongs to the caller."""
    yield from of_seen(survey.values.get("action-mutated"), "The action {what} {place}.")


@rule(
    "SRL-ACT-005",
    "action-ignored",
    "error",
    "acting",
    "the action makes no difference",
    "Look where step() uses its action.",
)
def ignored(acting: Acting) -> Iterator[Found]:
    """Whatever the policy, the same course."""
    if acting.effect is False:
        yield Found(
            f"{acting.policies} policies gave the same observations, rewards and ends from every start that was tried.",
            {"value": acting.policies},
        )


@rule(
    "SRL-ACT-006",
    "action-ignored",
    "error",
    "acting",
    "a dimension of the action makes no difference",
    "Look where step() uses it, or leave it out.",
)
def dimension_ignored(acting: Acting) -> Iterator[Found]:
    """A dimension at either end, the others at random: the same course."""
    if acting.deaf:
        dims = ", ".join(acting.deaf)
        yield Found(
            f"Whether dimension {dims} of the action is at its lowest or its highest makes no difference.",
            {"key": dims},
        )


@rule(
    "SRL-ACT-009",
    "action-ignored",
    "error",
    "acting",
    "after some steps actions make no difference any more",
    "Look where step() uses its action: each one counts, not only those at the beginning of an episode.",
)
def ignored_later(acting: Acting) -> Iterator[Found]:
    """The same actions at first and then others: the same course."""
    if acting.deaf_after is not None:
        steps = "the first step" if acting.deaf_after == 1 else f"step {acting.deaf_after}"
        yield Found(
            f"After {steps} of an episode it made no difference what was done, in any that was tried.",
            {"step": acting.deaf_after},
        )


@rule(
    "SRL-ACT-007",
    "action-crash",
    "error",
    "acting",
    "a valid action always raises",
    "Handle every action of the space, or declare fewer.",
)
def crash(acting: Acting) -> Iterator[Found]:
    """An action that fails in every start, while others do not."""
    if acting.fails and acting.works:
        name, fault = next(iter(acting.fails.items()))
        more = f", and so do {len(acting.fails) - 1} others" if len(acting.fails) > 1 else ""
        yield Found(
            f"{name[0].upper()}{name[1:]} raises {fault.error} in every start{more}.",
            {"step": fault.step, "key": name, "value": fault.error, "where": fault.where},
        )


@rule(
    "SRL-ACT-010",
    "action-crash",
    "error",
    "survey",
    "one action raises, in states that come later",
    "Handle every action of the space in every state, or mask it there.",
)
def crash_later(survey: Survey) -> Iterator[Found]:
    """Random episodes that fail do so with one and the same action of many."""
    random = [episode for episode in survey.episodes if episode.policy == "random"]
    failed = [e for e in random if e.fault is not None and e.fault.phase == "step" and not e.fault.exits and e.last]
    others = {episode.last for episode in random if episode.fault is None}
    actions = {episode.last for episode in failed}
    if len(failed) >= _SEVERAL and len(actions) == 1 and len(others | actions) >= _SEVERAL:
        fault = failed[0].fault
        assert fault is not None
        yield Found(
            f"Each of {len(failed)} random episodes that failed did so with action {failed[0].last}: {fault.error}.",
            {"step": fault.step, "seed": failed[0].seed, "key": failed[0].last, "value": fault.error},
        )


@rule(
    "SRL-ACT-008",
    "action-kept",
    "warning",
    "acting",
    "the environment keeps the caller's action array",
    "Keep a copy: self.last_action = np.array(action). The caller may use its array again.",
    unless=("action-mutated",),
)
def kept(acting: Acting) -> Iterator[Found]:
    """Writing into an action after the step changes the course."""
    yield from of_split(
        acting.kept, "After the caller had written into the array of an earlier action the course changed: {where}."
    )


def _floats(facts: Facts) -> Iterator[tuple[str, Any]]:
    for key, box in boxes(facts.action):
        if np.dtype(box.dtype).kind == "f":
            yield key, box
