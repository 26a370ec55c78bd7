"""The result of a check: findings, and what was looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from steadyrl.checker.finding import Finding, Severity

State = Literal["yes", "no", "not looked at"]


@dataclass(frozen=True)
class Practice:
    """One of the three things that a new environment is held to first.

    Attributes:
        rule: In words.
        state: Whether it holds.
        why: What speaks against it, or what it was seen by.
    """

    rule: str
    state: State
    why: str


@dataclass(frozen=True)
class Report:
    """What a check found.

    Attributes:
        env: How the environment is called.
        plan: `full`, `quick` or `no-side-effects`.
        findings: The gravest first.
        strict: Warnings count as well.
        numbers: What was looked at: steps, episodes, policies, time of a step, spaces.
        fits: Algorithm -> why it does not fit; empty where it does.
        seconds: The check took.
        experiments: What was carried out, with the seconds that it took.
    """

    env: str
    plan: str
    findings: Sequence[Finding]
    strict: bool = False
    numbers: Mapping[str, Any] = field(default_factory=dict)
    fits: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    experiments: Mapping[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """No error, and with `strict` no warning."""
        return not self.count("error") and not (self.strict and self.count("warning"))

    def count(self, severity: Severity) -> int:
        """Findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def practice(self) -> list[Practice]:
        """The three rules of practice."""
        return [self._holds(), self._leaves_nothing(), self._spaces_fit()]

    def _holds(self) -> Practice:
        rule = "1,000 random steps hold"
        kinds = ("step-", "reset-raises", "reset-arity", "obs-", "reward-not", "reward-type", "flag-type", "info-type")
        bad = self._first(*kinds, "exits-process", "hangs", "make-raises", "space-missing", "reset-signature")
        steps = self.numbers.get("random_steps", 0)
        if bad is not None:
            return Practice(rule, "no", bad.kind)
        if "survey" not in self.experiments:
            return Practice(rule, "not looked at", "")
        return Practice(rule, "yes" if steps >= 1000 else "not looked at", f"{steps:,} taken")

    def _leaves_nothing(self) -> Practice:
        rule = "reset leaves nothing behind"
        bad = self._first("reset-leak", "reset-mid", "seed-ignored", "nondeterministic", "obs-aliased", "info-aliased")
        if bad is not None:
            return Practice(rule, "no", bad.kind)
        seen = "repeat" in self.experiments
        return Practice(
            rule, "yes" if seen else "not looked at", "same seed, same course after other episodes" if seen else ""
        )

    def _spaces_fit(self) -> Practice:
        rule = "spaces match the algorithm"
        if not self.fits:
            return Practice(rule, "not looked at", "")
        good = [name.upper() for name, reason in self.fits.items() if not reason]
        return Practice(rule, "yes" if good else "no", ", ".join(good) or "none of them fits")

    def _first(self, *kinds: str) -> Finding | None:
        return next((f for f in self.findings if f.severity == "error" and f.kind.startswith(kinds)), None)

    def to_json(self) -> dict[str, Any]:
        """As the command prints it."""
        return {
            "env": self.env,
            "ok": self.ok,
            "findings": [finding.to_json() for finding in self.findings],
            "counts": {severity: self.count(severity) for severity in ("error", "warning", "note")},
            "plan": self.plan,
            "strict": self.strict,
            "practice": [vars(each) for each in self.practice],
            "fits": dict(self.fits),
            "looked_at": dict(self.numbers),
            "experiments": dict(self.experiments),
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        lines = [
            f"{self.env}: {self.count('error')} errors, {self.count('warning')} warnings, {self.count('note')} notes"
        ]
        for finding in self.findings:
            lines += [f"{finding.severity} {finding.code} {finding.kind}: {finding.message}", f"    {finding.remedy}"]
        return "\n".join(lines)
