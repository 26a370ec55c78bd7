"""Rules about goal environments."""

from __future__ import annotations

from collections.abc import Iterator

from steadyrl.checker.finding import Found, rule
from steadyrl.checker.probe.goals import Goals


@rule(
    "SRL-GOL-001",
    "goal-reward-mismatch",
    "error",
    "goals",
    "compute_reward and the reward of a step disagree",
    "Let step() call compute_reward(achieved_goal, desired_goal, info) with what it returns.",
)
def mismatch(goals: Goals) -> Iterator[Found]:
    """Hindsight relabels with compute_reward."""
    if goals.fault:
        yield Found(f"compute_reward in step {goals.step}: {goals.fault}.", {"step": goals.step, "value": goals.fault})


@rule(
    "SRL-GOL-002",
    "goal-reward-batch",
    "warning",
    "goals",
    "compute_reward does not take batches",
    "Reduce over the last axis only, so that goals [B, D] give rewards [B].",
)
def batch(goals: Goals) -> Iterator[Found]:
    """Hindsight asks for many at once."""
    if goals.batch:
        yield Found(f"compute_reward with a batch of goals: {goals.batch}.", {"value": goals.batch})


@rule(
    "SRL-GOL-003",
    "goal-shapes",
    "error",
    "goals",
    "achieved and desired goal differ in shape",
    "Give both the same space.",
)
def shapes(goals: Goals) -> Iterator[Found]:
    """A goal that was reached has to be one that can be asked for."""
    if goals.shapes:
        yield Found(f"The goals differ: {goals.shapes}.", {"value": goals.shapes})


@rule(
    "SRL-GOL-004",
    "goal-reward-missing",
    "note",
    "goals",
    "a goal environment without compute_reward",
    "Add compute_reward(achieved_goal, desired_goal, info) for hindsight.",
)
def missing(goals: Goals) -> Iterator[Found]:
    """Without it hindsight cannot be used."""
    if goals.missing:
        yield Found("The observation has goals, but there is no compute_reward.")
