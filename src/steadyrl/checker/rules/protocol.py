"""Rules about the calls: what reset and step accept, return and raise."""

from __future__ import annotations

from collections.abc import Iterator

from steadyrl.checker.finding import Found, rule
from steadyrl.checker.probe.facts import Facts
from steadyrl.checker.probe.repeat import Repeats
from steadyrl.checker.probe.survey import Episode, Survey
from steadyrl.checker.rules.telling import of_seen

_SIGNATURE = "Declare reset(self, *, seed=None, options=None)."


@rule(
    "SRL-API-001",
    "reset-signature-seed",
    "error",
    "facts",
    "reset has no seed argument, or one whose default is not None",
    _SIGNATURE,
)
def signature_seed(facts: Facts) -> Iterator[Found]:
    """Without a seed, a reset has to go on with the generator that there is."""
    told = facts.reset.seed
    if told == "missing":
        yield Found("reset() has no argument `seed`.", {"key": "seed"})
    elif told == "required":
        yield Found("reset() cannot be called without `seed`: it has no default.", {"key": "seed"})
    elif told != "None":
        yield Found(
            f"`seed` of reset() is {told} by default, so that every plain reset() starts alike.", {"value": told}
        )
    elif "seed" in facts.needs:
        yield Found(f"reset() without a seed raises {facts.needs['seed']}.", {"key": "seed"})


@rule("SRL-API-002", "reset-signature-options", "error", "facts", "reset has no options argument", _SIGNATURE)
def signature_options(facts: Facts) -> Iterator[Found]:
    """Every wrapper passes `options` on."""
    if facts.reset.options in ("missing", "required"):
        what = "has no argument `options`" if facts.reset.options == "missing" else "needs `options`, without a default"
        yield Found(f"reset() {what}.", {"key": "options"})
    elif "options" in facts.needs:
        yield Found(f"reset() without options raises {facts.needs['options']}.", {"key": "options"})


@rule("SRL-API-003", "reset-arity", "error", "survey", "reset does not return two values", "Return obs, info.")
def reset_arity(survey: Survey) -> Iterator[Found]:
    """reset returns a pair."""
    if "reset" in survey.arity:
        yield Found(
            f"reset() returned {survey.arity['reset']} instead of (obs, info).", {"value": survey.arity["reset"]}
        )


@rule(
    "SRL-API-004",
    "step-arity",
    "error",
    "survey",
    "step does not return five values",
    "Return obs, reward, terminated, truncated, info.",
)
def step_arity(survey: Survey) -> Iterator[Found]:
    """step returns five values."""
    if "step" in survey.arity:
        found = survey.arity["step"]
        yield Found(f"step() returned {found} instead of (obs, reward, terminated, truncated, info).", {"value": found})


@rule(
    "SRL-API-005",
    "info-type",
    "error",
    "survey",
    "info is no dict",
    "Return a dict, {} where there is nothing to tell.",
)
def info_type(survey: Survey) -> Iterator[Found]:
    """info is a dict."""
    yield from of_seen(survey.values.get("info-type"), "The info is {what} {place}.")


@rule("SRL-API-006", "reward-type", "error", "survey", "a reward is not one number", "Return float(reward).")
def reward_type(survey: Survey) -> Iterator[Found]:
    """A reward is a number."""
    yield from of_seen(survey.values.get("reward-type"), "The reward is {what} {place}.")


@rule("SRL-API-007", "flag-type", "error", "survey", "terminated or truncated is no bool", "Return bool(...) for both.")
def flag_type(survey: Survey) -> Iterator[Found]:
    """Flags are bools; NumPy's will do."""
    yield from of_seen(survey.values.get("flag-type"), "{what} {place}.")


@rule(
    "SRL-API-008",
    "step-raises",
    "error",
    "survey",
    "a step with a valid action raises",
    "Correct the environment there; the seed and policy given here lead to it.",
    unless=("action-crash",),
)
def step_raises(survey: Survey) -> Iterator[Found]:
    """A valid action must not raise."""
    for episode in _faulty(survey, "step")[:1]:
        yield _raised(episode)


@rule(
    "SRL-API-009",
    "reset-raises",
    "error",
    "survey",
    "reset raises",
    "Correct the environment there.",
    unless=("reset-signature-seed", "reset-signature-options"),
)
def reset_raises(survey: Survey) -> Iterator[Found]:
    """A reset between episodes must not raise."""
    for episode in [episode for episode in _faulty(survey, "reset") if not episode.early][:1]:
        yield _raised(episode)


@rule(
    "SRL-API-010",
    "reset-mid-episode",
    "error",
    "survey",
    "reset raises before the end of an episode",
    "Let reset() begin a new episode at any time: evaluation, time limits of wrappers and resumed runs do so.",
)
def early_reset_raises(survey: Survey) -> Iterator[Found]:
    """A reset in the middle of an episode must not raise."""
    faulty = _faulty(survey, "reset")
    if faulty and all(episode.early for episode in faulty):
        fault = faulty[0].fault
        assert fault is not None
        yield Found(
            f"reset() in the middle of an episode raised {fault.error}.", {"value": fault.error, "where": fault.where}
        )


@rule(
    "SRL-API-011",
    "reset-mid-episode",
    "error",
    "repeat",
    "a reset before the end of an episode breaks the next one",
    "Let reset() set everything, whatever came before.",
    unless=("exits-process",),
)
def early_reset(repeats: Repeats) -> Iterator[Found]:
    """An episode that was broken off must not show in the next."""
    if repeats.early is not None:
        fault = repeats.early
        yield Found(
            f"reset() in the middle of an episode raised {fault.error}.", {"value": fault.error, "where": fault.where}
        )
    elif repeats.cause == "early-reset" and repeats.split is not None:
        yield Found(
            f"After an episode that was broken off, the same seed gave another course: {repeats.split}.",
            repeats.split.evidence,
        )


def _faulty(survey: Survey, phase: str) -> list[Episode]:
    return [
        episode
        for episode in survey.episodes
        if episode.fault is not None and episode.fault.phase == phase and not episode.fault.exits
    ]


def _raised(episode: Episode) -> Found:
    fault = episode.fault
    assert fault is not None
    place = f"step {fault.step}" if fault.phase == "step" else "reset()"
    where = f" ({fault.where})" if fault.where else ""
    return Found(
        f"{place} of an episode with seed {episode.seed} ({episode.policy}) raised {fault.error}{where}.",
        {
            "step": fault.step,
            "seed": episode.seed,
            "policy": episode.policy,
            "value": fault.error,
            "where": fault.where,
        },
    )
