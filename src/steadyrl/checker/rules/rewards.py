"""Rules about rewards."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from steadyrl.checker.finding import Found, rule
from steadyrl.checker.probe.acting import Acting
from steadyrl.checker.probe.survey import Survey
from steadyrl.checker.rules.telling import of_seen

# With a discount of 0.99 a reward of 1e3 a step is a value of 1e5; a fresh value network says 0 and moves by some 1e-3
# an update, and the square of its error is 1e10. Below 1e-4 a thousand steps pay less than the entropy bonus.
_LARGE = 1e3
_SMALL = 1e-4
_ENOUGH = 200  # steps
_MANY = 200  # episodes
_SOME = 20
_LONG = 5_000  # steps
_SPARSE = 0.01  # of the steps


@rule(
    "SRL-REW-001",
    "reward-not-finite",
    "error",
    "survey",
    "a reward is NaN or infinite",
    "Find the division or overflow that makes it; one such reward ends a training.",
)
def not_finite(survey: Survey) -> Iterator[Found]:
    """Every reward is a number."""
    yield from of_seen(survey.values.get("reward-not-finite"), "The reward is {what} {place}.")


@rule(
    "SRL-REW-002",
    "reward-scale",
    "warning",
    "survey",
    "rewards are far from order 1",
    "Multiply them by a constant in the environment, or train with normalize_reward.",
)
def scale(survey: Survey) -> Iterator[Found]:
    """A value network is made for returns that it can reach."""
    rewards = np.array(survey.rewards)
    if len(rewards) < 50 or not rewards.any():
        return
    size = float(np.sqrt(np.square(np.clip(rewards, -1e150, 1e150)).mean()))
    largest = float(np.abs(rewards).max())
    if size > _LARGE:
        yield Found(f"Rewards are of size {size:.2g} (root mean square), up to {largest:.2g}.", {"value": size})
    elif largest < _SMALL:
        yield Found(f"No reward is larger than {largest:.2g}.", {"value": largest})


@rule(
    "SRL-REW-003",
    "reward-constant",
    "warning",
    "survey",
    "the reward does not tell one policy from another",
    "Let the reward depend on what the agent brings about; where it is merely rare, exploration will be hard.",
    unless=("ends-at-once", "never-ends"),
)
def constant(survey: Survey) -> Iterator[Found]:
    """Every policy has the same return: rewards are all alike, or follow the clock."""
    rewards = np.array(survey.rewards)
    if len(rewards) < _ENOUGH or len({e.policy for e in survey.episodes}) < 3:
        return
    totals = np.array([episode.total for episode in survey.ended])
    if any(episode.fault for episode in survey.episodes) or (len(totals) and np.ptp(totals) > 1e-9 * abs(totals[0])):
        return
    if (rewards != rewards[0]).any():
        if len({episode.policy for episode in survey.ended}) >= 3 and len(totals) >= 10:
            yield Found(
                f"All {len(totals)} episodes of several policies had the same return, {totals[0]:g}.",
                {"value": float(totals[0])},
            )
        return
    ended = f" and all {len(survey.ended)} episodes ended with the same return" if survey.ended else ""
    # It may be that of a goal which nobody came to, above all a reward of 0; many steps or episodes deny that.
    rare = len(totals) < _MANY if rewards[0] == 0 else len(totals) < _SOME and len(rewards) < _LONG
    yield Found(
        f"The reward was {rewards[0]:g} on each of {len(rewards)} steps{ended}.",
        {"value": float(rewards[0])},
        severity="note" if rare else "",
    )


@rule(
    "SRL-REW-004",
    "reward-constant",
    "warning",
    "acting",
    "the reward does not follow from what is done",
    "Let the reward depend on what the agent brings about.",
    unless=("action-ignored", "nondeterministic"),
)
def not_earned(acting: Acting) -> Iterator[Found]:
    """Episodes differ in their rewards, but policies do not, nor do they end otherwise."""
    if acting.rewards is False:
        yield Found(
            f"{acting.policies} policies had the same rewards and ends from every start that was tried, though starts "
            "differ.",
            {"value": acting.policies},
        )


@rule(
    "SRL-REW-005",
    "reward-sparse",
    "note",
    "survey",
    "few steps have a reward that is not the usual one",
    "Reward progress as well, or expect to explore for long: hindsight, curiosity or demonstrations help.",
)
def sparse(survey: Survey) -> Iterator[Found]:
    """All but a few steps are rewarded alike."""
    rewards = np.array(survey.rewards)
    if len(rewards) < 1_000:
        return
    values, counts = np.unique(rewards, return_counts=True)
    others = len(rewards) - int(counts.max())
    if 0 < others < _SPARSE * len(rewards):
        yield Found(
            f"{others} of {len(rewards)} steps had another reward than {values[counts.argmax()]:g}.", {"count": others}
        )
