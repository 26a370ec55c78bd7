"""Experiments of the checker in this process, with small budgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from steadyrl.checker import rules
from steadyrl.checker.experiments import Context, perform
from steadyrl.checker.finding import RULES, Finding
from steadyrl.checker.plan import Plan
from steadyrl.checker.probe.stage import Stage
from support.checked_envs import Walk

SMALL = Plan("full", 600, 5.0, 40, 1, 2.0, 6_000, 40, 40)
assert rules.SUBJECTS


def stage_of(make: Callable[..., Any], plan: Plan = SMALL, **options: Any) -> Stage:
    """A stage in this process."""

    def maker(mode: str | None) -> Any:
        return make() if mode is None else make(render_mode=mode)

    return Stage(maker, plan, "Env", **options)


def found(make: Callable[..., Any], *experiments: str, plan: Plan = SMALL, limit: int | None = None) -> list[Finding]:
    """The findings of these experiments."""
    stage, context = stage_of(make, plan), Context()
    context.facts.metadata = dict(getattr(make, "metadata", {}))
    context.facts.limit = limit
    findings: list[Finding] = []
    for name in experiments:
        findings += perform(name, stage, context)[1]
        if name == "facts":
            context.facts.limit = limit or context.facts.limit
    return findings


def codes(findings: list[Finding]) -> set[str]:
    """Their codes."""
    return {finding.code for finding in findings}


@dataclass(frozen=True)
class Case:
    """A rule, what breaks it, and what looks like it but is sound.

    Attributes:
        experiment: Which shows it; several are separated by spaces.
    """

    code: str
    experiment: str
    faulty: Callable[..., Any]
    sound: Callable[..., Any] = Walk
    limit: int | None = None


def hold(case: Case, plan: Plan = SMALL) -> None:
    """The rule finds the fault, in order, and says nothing to what is sound."""
    names = case.experiment.split()
    told = found(case.faulty, *names, plan=plan, limit=case.limit)
    first = next(finding for finding in told if finding.code == case.code)
    assert (first.kind, first.docs) == (RULES[case.code].kind, f"docs/checker.md#{case.code.lower()}")
    assert first.message.endswith(".")
    assert first.remedy
    sound = None if case.faulty is case.sound else case.limit
    assert case.code not in codes(found(case.sound, *names, plan=plan, limit=sound))
