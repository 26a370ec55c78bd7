"""The experiments by name, in order, and the findings of the rules that read their records."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from steadyrl.checker.finding import RULES, Finding
from steadyrl.checker.probe.acting import acting
from steadyrl.checker.probe.again import Again, Log, again
from steadyrl.checker.probe.batched import batched
from steadyrl.checker.probe.ends import ends
from steadyrl.checker.probe.facts import Facts, facts
from steadyrl.checker.probe.goals import goals
from steadyrl.checker.probe.play import Play
from steadyrl.checker.probe.process import process
from steadyrl.checker.probe.render import rendering
from steadyrl.checker.probe.repeat import Repeater, Repeats
from steadyrl.checker.probe.resources import resources
from steadyrl.checker.probe.stage import Stage
from steadyrl.checker.probe.starting import starting
from steadyrl.checker.probe.survey import Survey
from steadyrl.checker.probe.surveyor import Surveyor
from steadyrl.checker.probe.together import together
from steadyrl.checker.probe.vector_probe import VectorProbe
from steadyrl.checker.probe.vectors import Vectors
from steadyrl.checker.records import Fits, Saving
from steadyrl.configs import CONFIGS
from steadyrl.configs.suitability import check_suitable
from steadyrl.errors import SteadyRLError


@dataclass
class Context:
    """What later experiments need of earlier ones.

    Attributes:
        facts: What is declared.
        vector: Makes the vector version with so many environments; None where there is none.
        numbers: Counts for the summary.
        logs: The last episodes of the survey.
        first: The first play that was repeated.
    """

    facts: Facts = field(default_factory=Facts)
    vector: Callable[[int], Any] | None = None
    numbers: dict[str, Any] = field(default_factory=dict)
    logs: Sequence[Log] = ()
    first: Play | None = None


def _facts(stage: Stage, context: Context) -> Facts:
    context.facts = facts(stage)
    told = context.facts
    context.numbers |= {
        "class": told.class_name,
        "observation_space": str(told.observation),
        "action_space": str(told.action),
        "limit": told.limit,
    }
    return told


def _survey(stage: Stage, context: Context) -> Survey:
    driver = stage.drive()
    surveyor = Surveyor(stage, driver)
    surveyor.survey.limit = context.facts.limit
    survey = surveyor.run()
    surveyor.driver.close()
    context.logs = tuple(surveyor.logs)
    times = sorted(survey.times)
    if times:
        stage.plan = stage.plan.for_steps_of(times[len(times) // 2])
    context.numbers |= {
        "steps": survey.steps,
        "episodes": len(survey.episodes),
        "policies": len({episode.policy for episode in survey.episodes}),
        "step_us": 1e6 * times[len(times) // 2] if times else None,
        "longest": max((episode.length for episode in survey.episodes), default=0),
        "random_steps": sum(episode.length for episode in survey.episodes if episode.policy == "random"),
        "faults": sum(episode.fault is not None for episode in survey.episodes),
    }
    return survey


def _repeat(stage: Stage, context: Context) -> Repeats:
    repeater = Repeater(stage)
    repeater.found.declared = context.facts.nondeterministic
    found = repeater.run()
    context.first = found.play
    if found.cause is not None:  # the same would only show again in what is played again later
        context.logs = ()
    return found


def _again(stage: Stage, context: Context) -> Again:
    return again(stage, context.logs[-2:] if stage.plan.quick else context.logs, context.first)


def _vector(stage: Stage, context: Context) -> Vectors | None:
    return None if context.vector is None else VectorProbe(stage, context.vector).run()


def _by_itself(experiment: Callable[[Stage], Any]) -> Callable[[Stage, Context], Any]:
    """An experiment that needs nothing of those before it."""
    return lambda stage, context: experiment(stage)


def _fits(stage: Stage, context: Context) -> Fits | None:
    from steadyrl.spaces import ActionSpec, ObsSpec

    if context.facts.made is not None or context.facts.missing:
        return None
    reasons = {}
    for name, config in CONFIGS.items():
        try:
            ObsSpec.of(context.facts.observation)
            check_suitable(name, config(), ActionSpec.of(context.facts.action))
            reasons[name] = ""
        except SteadyRLError as error:
            reasons[name] = error.message
    context.numbers["fits"] = reasons
    return Fits(reasons)


def _saving(stage: Stage, context: Context) -> Saving | None:
    from steadyrl.envs.snapshot import how
    from steadyrl.envs.wrappers import Canonical

    if not any(context.numbers.get("fits", {}).values()) and "fits" not in context.numbers:
        return None
    env = Canonical(stage.maker(None), stage.name)
    try:
        env.reset(seed=1)
        env.reset(seed=1)
        ability = how(env)
    except SteadyRLError:
        return None
    finally:
        env.close()
    context.numbers["saving"] = ability.kind
    return Saving(ability.kind, ability.reason)


EXPERIMENTS: dict[str, Callable[[Stage, Context], Any]] = {
    "facts": _facts,
    "fits": _fits,
    "survey": _survey,
    "resources": _by_itself(resources),
    "repeat": _repeat,
    "together": _by_itself(together),
    "acting": _by_itself(acting),
    "ends": lambda stage, context: ends(stage, context.facts.limit),
    "process": _by_itself(process),
    "goals": _by_itself(goals),
    "vector": _vector,
    "starting": lambda stage, context: starting(stage, context.first),
    "batched": lambda stage, context: None if stage.plan.quick else batched(stage),
    "again": _again,
    "saving": _saving,
    "render": lambda stage, context: rendering(stage, context.facts.metadata),
}
ALONE = ("facts", "fits", "survey")  # one instance, and no reset that an end does not ask for


def perform(name: str, stage: Stage, context: Context) -> tuple[Any, list[Finding]]:
    """The record of an experiment, and the findings of its rules; a fault of the checker itself is a note."""
    try:
        record = EXPERIMENTS[name](stage, context)
        return record, [] if record is None else found_in(name, record)
    except SteadyRLError:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        message = f"The experiment {name!r} could not be carried out: {type(error).__name__}: {error}"
        where = f"{last.filename.rpartition('/')[2]}, line {last.lineno}"
        rule = RULES["SRL-CHK-001"]
        return None, [Finding(rule.code, rule.kind, "note", message, {"where": where}, rule.remedy, rule.docs)]


def found_in(name: str, record: Any) -> list[Finding]:
    """What the rules find in the record of an experiment."""
    return [finding for rule in RULES.values() if rule.record == name for finding in rule.findings(record)]
