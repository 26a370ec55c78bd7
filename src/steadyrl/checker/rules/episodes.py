"""Rules about how episodes end."""

from __future__ import annotations

from collections.abc import Iterator

from steadyrl.checker.clocks import clock_is_observed
from steadyrl.checker.finding import Found, rule
from steadyrl.checker.probe.ends import Ends
from steadyrl.checker.probe.survey import Episode, Survey

_SEVERAL = 3  # ends that are alike; two may be chance
# Odds against episodes ending together by chance, from how seldom they end at any other step.
_CHANCE = 1e-4
_ENDLESS = 5_000  # steps of one episode; tasks with an end of their own come to it before
_FREE = ("random", "linear")  # policies that act otherwise in each episode


@rule(
    "SRL-EPI-001",
    "timeout-as-terminated",
    "error",
    "survey",
    "running out of time is reported as termination",
    "Return truncated=True at the limit; where it is a rule of the game, observe the time that is left.",
    unless=("both-flags", "ends-at-once", "step-arity"),
)
def timeout(survey: Survey) -> Iterator[Found]:
    """Episodes that get so far all terminate at one step, and the observation holds no clock."""
    ended = [episode for episode in survey.ended if episode.own[0] or episode.own[1]]
    if not ended:
        return
    longest = max(episode.length for episode in ended)
    if longest < 2 or any(not e.complete and e.fault is None and e.length > longest for e in survey.episodes):
        return
    last = [episode for episode in ended if episode.length == longest]
    if not all(episode.own == (True, False) for episode in last) or not _by_the_clock(last, ended):
        return
    if not survey.names or clock_is_observed(survey, longest):
        return
    yield Found(
        f"All {len(last)} episodes that came to step {longest} terminated there, whatever was done, and the "
        "observation does not tell the time.",
        {"step": longest, "seed": last[0].seed, "value": "terminated", "count": len(last)},
    )


def _by_the_clock(last: list[Episode], ended: list[Episode]) -> bool:
    """Whether episodes that end together do so because of the time: too many, acted in too many ways, for chance."""
    if len({episode.seed for episode in last}) < _SEVERAL or len({episode.course for episode in last}) < _SEVERAL:
        return False
    before = len(ended) - len(last)
    steps = sum(episode.length for episode in ended) - len(last)
    hazard = (before + 1) / (steps + 1)
    return hazard ** (len(last) - 1) <= _CHANCE and any(episode.policy in _FREE for episode in last)


@rule(
    "SRL-EPI-007",
    "timeout-as-terminated",
    "error",
    "survey",
    "an end that info calls a time limit is reported as termination",
    "Return truncated=True there, and terminated=False.",
    unless=("both-flags",),
)
def told_as_timeout(survey: Survey) -> Iterator[Found]:
    """`info["TimeLimit.truncated"]`, as the old interface had it, says what the flags should."""
    cut = [episode for episode in survey.ended if episode.told_cut and episode.own == (True, False)]
    if cut:
        yield Found(
            f"Step {cut[0].length} of the episode with seed {cut[0].seed} returned terminated, while its info says "
            "TimeLimit.truncated.",
            {"step": cut[0].length, "seed": cut[0].seed, "key": "TimeLimit.truncated", "count": len(cut)},
        )


@rule(
    "SRL-EPI-002",
    "both-flags",
    "error",
    "survey",
    "terminated is raised whenever truncated is, or the other way round",
    "Return terminated=False where only the time ran out, and truncated=False where the task is over: the value of the "
    "last state is 0 in one case only.",
)
def both_flags(survey: Survey) -> Iterator[Found]:
    """A time limit that is also reported as an end of the task, or an end that is reported as a time limit."""
    for k, name in ((1, "truncated"), (0, "terminated")):
        told = [episode for episode in survey.ended if episode.own[k]]
        if len(told) >= _SEVERAL and all(episode.own == (True, True) for episode in told):
            yield Found(
                f"All {len(told)} {name} episodes were terminated and truncated in the same step, first in step "
                f"{told[0].length} with seed {told[0].seed}.",
                {"step": told[0].length, "seed": told[0].seed, "value": "both flags", "count": len(told)},
            )
            return


@rule(
    "SRL-EPI-003",
    "time-limit-off",
    "warning",
    "survey",
    "the environment truncates at another step than its registered limit",
    "Leave the limit to max_episode_steps, or register the one that it has.",
    unless=("spec-invalid",),
)
def time_limit_off(survey: Survey) -> Iterator[Found]:
    """Two limits that do not agree."""
    cut = [episode for episode in survey.ended if episode.own == (False, True)]
    longest = max((episode.length for episode in survey.episodes), default=0)
    last = [episode for episode in cut if episode.length == longest]
    if survey.limit is None or len(last) < _SEVERAL or longest == survey.limit or not _by_the_clock(last, cut):
        return
    yield Found(
        f"The environment truncated {len(last)} episodes at step {longest}, but its limit is {survey.limit}.",
        {"step": longest, "value": longest, "expected": survey.limit},
    )


@rule(
    "SRL-EPI-004",
    "never-ends",
    "warning",
    "ends",
    "no episode ends and there is no limit",
    "Register it with max_episode_steps, or wrap it in gymnasium.wrappers.TimeLimit.",
)
def never_ends(ends: Ends) -> Iterator[Found]:
    """Without ends there are no returns, and no resets."""
    if not ends.found and ends.limit is None and not ends.broken and ends.longest >= _ENDLESS:
        yield Found(
            f"No episode ended in {ends.steps} steps of several policies, {ends.longest} of them in one, and no limit "
            "is registered.",
            {"step": ends.longest},
        )


@rule(
    "SRL-EPI-005",
    "ends-at-once",
    "error",
    "survey",
    "every episode ends in its first step",
    "Look at the condition of the end; a task of one decision needs no max_episode_steps.",
)
def ends_at_once(survey: Survey) -> Iterator[Found]:
    """A limit above 1 promises more than one step."""
    ended = survey.ended
    if len(ended) >= 10 and all(episode.length == 1 for episode in ended) and (survey.limit or 1) > 1:
        yield Found(
            f"All {len(ended)} episodes of several policies ended in their first step, despite a limit of "
            f"{survey.limit}.",
            {"step": 1, "seed": ended[0].seed, "value": 1, "expected": survey.limit},
        )


@rule(
    "SRL-EPI-006",
    "step-after-end",
    "warning",
    "ends",
    "a step after the end goes on as if nothing had happened",
    "Raise gymnasium.error.ResetNeeded, or keep the flag up: a forgotten reset would else go unseen.",
)
def step_after_end(ends: Ends) -> Iterator[Found]:
    """After the end both flags are down again."""
    if ends.went_on and 2 * len(ends.went_on) >= ends.tried:
        step, seed = ends.went_on[0]
        yield Found(
            f"The episode with seed {seed} ended in step {step}; one more step returned both flags down.",
            {"step": step + 1, "seed": seed},
        )


@rule(
    "SRL-EPI-008",
    "step-before-reset",
    "note",
    "ends",
    "a step before the first reset is taken as any other",
    "Raise gymnasium.error.ResetNeeded; environments that are made by id are guarded by Gymnasium's wrappers.",
)
def step_before_reset(ends: Ends) -> Iterator[Found]:
    """There is no episode yet."""
    if ends.early:
        yield Found("A step before the first reset returned an observation and a reward.")
