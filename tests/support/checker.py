"""Experiments of the checker in this process, with small budgets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steadyrl.checker import rules
from steadyrl.checker.experiments import Context, perform
from steadyrl.checker.finding import Finding
from steadyrl.checker.plan import Plan
from steadyrl.checker.probe.stage import Stage

SMALL = Plan("full", 600, 5.0, 40, 1, 2.0, 2_100, 40, 40)
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
