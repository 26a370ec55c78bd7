"""Notes on what can be done with the environment: which algorithms fit, and how its state is saved."""

from __future__ import annotations

from collections.abc import Iterator

from steadyrl.checker.finding import Found, rule
from steadyrl.checker.records import Fits, Saving


@rule(
    "SRL-FIT-001",
    "unsuitable",
    "note",
    "fits",
    "an algorithm does not fit the spaces",
    "Choose one of the others, or wrap the environment.",
)
def unsuitable(fits: Fits) -> Iterator[Found]:
    """Which algorithms cannot be used, and why."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in fits.reasons.items():
        if reason:
            by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        told = [name.upper() for name in names]
        whose = "" if reason.startswith(f"{told[0]} ") else f"{', '.join(told)}: "
        yield Found(f"{whose}{reason}", {"algorithms": names})


@rule(
    "SRL-FIT-002",
    "no-algorithm",
    "note",
    "fits",
    "no algorithm fits the spaces",
    "Flatten or wrap its spaces into Box, Discrete, MultiDiscrete, MultiBinary or a flat Dict of these.",
)
def no_algorithm(fits: Fits) -> Iterator[Found]:
    """Nothing here can train on it."""
    if fits.reasons and all(fits.reasons.values()):
        yield Found("None of the algorithms here can be trained on it as it is.")


@rule(
    "SRL-FIT-003",
    "not-resumable",
    "note",
    "saving",
    "the state of the environment cannot be saved",
    "Give it get_state() and set_state(state), so that a run can be resumed exactly.",
)
def not_resumable(saving: Saving) -> Iterator[Found]:
    """Exact resume depends on it."""
    if saving.kind == "none":
        yield Found(f"A run cannot be resumed exactly: {saving.reason}", {"value": saving.kind})


@rule(
    "SRL-FIT-004",
    "resumed-by-replay",
    "note",
    "saving",
    "the state of the environment is saved by running its episode again",
    "Nothing has to be done; get_state() and set_state(state) would make resuming faster.",
)
def by_replay(saving: Saving) -> Iterator[Found]:
    """Exact, and slow for long episodes."""
    if saving.kind == "replay":
        yield Found(f"Its state is saved by running the episode again: {saving.reason}", {"value": saving.kind})


@rule(
    "SRL-CHK-001",
    "not-checked",
    "note",
    "checker",
    "part of the check could not be carried out",
    "Look at the other findings first: one of them may be the cause.",
)
def not_checked(why: str) -> Iterator[Found]:
    """What was not looked at is said."""
    if why:
        yield Found(why)
