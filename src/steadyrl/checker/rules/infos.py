"""Rules about info and action masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from steadyrl.checker.finding import Found, rule
from steadyrl.checker.probe.survey import Survey
from steadyrl.checker.rules.telling import of_seen


@rule(
    "SRL-INF-001",
    "info-aliased",
    "error",
    "survey",
    "an info changes after it was returned",
    "Return a new dict each time: dict(self.info).",
)
def aliased(survey: Survey) -> Iterator[Found]:
    """What was returned belongs to the caller."""
    yield from of_seen(survey.kept.get("info"), "The info that was returned {place} changed afterwards: {what}.")


@rule(
    "SRL-INF-002",
    "info-type-changes",
    "warning",
    "survey",
    "an entry of info has values of different types",
    "Keep to one type for each key; leave the key out where there is nothing to tell. Vector environments put the "
    "values of one key into one array.",
)
def type_changes(survey: Survey) -> Iterator[Found]:
    """A key stands for one type."""
    for key, kinds in survey.info_types.items():
        if len(kinds) > 1:
            (one, first), (other, second) = list(kinds.items())[:2]
            yield Found(
                f"info{key} is {_article(one)} {first} and {_article(other)} {second}.",
                second.evidence | {"key": key, "value": other, "expected": one},
            )
            return


@rule(
    "SRL-MSK-001",
    "mask-empty",
    "error",
    "survey",
    "an action mask allows no action",
    "End the episode in such a state (terminated), or allow an action that does nothing.",
)
def mask_empty(survey: Survey) -> Iterator[Found]:
    """While the episode is not terminated there is an action to choose."""
    yield from of_seen(
        survey.values.get("mask-empty"), "The action mask allows nothing {place}, and the episode is not terminated."
    )


@rule(
    "SRL-MSK-002",
    "mask-shape",
    "error",
    "survey",
    "an action mask has another shape than the actions",
    "Return one entry for each action of the Discrete space; for MultiDiscrete those of its entries one after the "
    "other, or a tuple of arrays.",
)
def mask_shape(survey: Survey) -> Iterator[Found]:
    """One entry an action."""
    yield from of_seen(survey.values.get("mask-shape"), "The action mask has {what} {place}.")


@rule(
    "SRL-MSK-003",
    "mask-unused",
    "note",
    "survey",
    "an action mask is where no training takes it from",
    "Put it into info['action_mask'] at every reset and step, or give the environment a method action_masks(); the "
    "actions of such an environment are Discrete or MultiDiscrete.",
)
def mask_unused(survey: Survey) -> Iterator[Found]:
    """A training says so once, and does what the mask forbids."""
    yield from of_seen(survey.values.get("mask-unused"), "The action mask in {what} {place} is not used by a training.")


@rule(
    "SRL-MSK-004",
    "mask-missing",
    "error",
    "survey",
    "some observations come with an action mask and others without",
    "Let info['action_mask'] hold one at every reset and step, also where an episode is truncated.",
)
def mask_missing(survey: Survey) -> Iterator[Found]:
    """Whether masks are used is decided by the first reset; a training stops where they are missing, or come later."""
    yield from of_seen(survey.values.get("mask-missing"), "There was {what} {place}, unlike at the first reset.")
    for found in of_seen(
        survey.values.get("mask-cut"),
        "There was {what} {place}, which truncated it: DQN and SAC stop there, PPO and A2C go on.",
    ):
        yield replace(found, severity="warning")


def _article(kind: str) -> str:
    return kind if kind == "None" else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
