"""What a rule is, what it finds, and the list of all rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
DOCS = "docs/checker.md"
ANY = "*"


@dataclass(frozen=True)
class Found:
    """One breach of a rule.

    Attributes:
        message: One sentence: what was seen, where.
        evidence: Where, as plain values: `step`, `key`, `value`, `seed` and whatever else the rule knows.
        severity: Where this breach is milder or graver than the rule's own; empty is the rule's.
        remedy: Where the rule's own is too general; empty is the rule's.
    """

    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    severity: Severity | Literal[""] = ""
    remedy: str = ""


@dataclass(frozen=True)
class Finding:
    """A breach as the report shows it.

    Attributes:
        code: Of the rule, such as `SRL-OBS-003`; it never changes.
        kind: The rule's word, such as `obs-dtype`.
        severity: `error` breaks the interface, reproducibility or data; `warning` is legal but bad for learning or for
            the neighbours; `note` is worth knowing.
        message: One sentence: what was seen, where.
        evidence: Where, as plain values.
        remedy: One sentence that says what to do.
        docs: The page and anchor that explain the rule.
    """

    code: str
    kind: str
    severity: Severity
    message: str
    evidence: Mapping[str, Any]
    remedy: str
    docs: str

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {**vars(self), "evidence": dict(self.evidence)}


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        code: Stable.
        kind: Stable; several rules may find the same kind in different ways.
        severity: Of its findings.
        record: Which record it reads: the name of the experiment that writes it.
        what: What is wrong, for the list.
        remedy: What to do.
        find: The rule itself.
        unless: Kinds that explain this one: where one of them was found, this rule has nothing to add. `ANY` stands for
            all others.
    """

    code: str
    kind: str
    severity: Severity
    record: str
    what: str
    remedy: str
    find: Callable[[Any], Iterable[Found]]
    unless: tuple[str, ...] = ()

    @property
    def docs(self) -> str:
        """Where it is explained."""
        return f"{DOCS}#{self.code.lower()}"

    def findings(self, record: Any) -> Iterator[Finding]:
        """What it finds in a record."""
        for found in self.find(record):
            yield Finding(
                self.code,
                self.kind,
                found.severity or self.severity,
                found.message,
                found.evidence,
                found.remedy or self.remedy,
                self.docs,
            )


RULES: dict[str, Rule] = {}


def rule(
    code: str, kind: str, severity: Severity, record: str, what: str, remedy: str, unless: tuple[str, ...] = ()
) -> Callable[[Callable[[Any], Iterable[Found]]], Callable[[Any], Iterable[Found]]]:
    """Decorator: enters a function of a record into the list of rules."""

    def entered(find: Callable[[Any], Iterable[Found]]) -> Callable[[Any], Iterable[Found]]:
        if code in RULES:
            raise ValueError(f"two rules are called {code}")
        RULES[code] = Rule(code, kind, severity, record, what, remedy, find, unless)
        return find

    return entered


def settled(findings: Iterable[Finding]) -> list[Finding]:
    """Findings without those that another one explains, the gravest first, and of these such of calls and spaces."""
    listed = list(findings)
    kinds = {finding.kind for finding in listed if finding.severity != "note"}
    kept = [finding for finding in listed if not _explained(RULES[finding.code], kinds)]
    return sorted(kept, key=lambda finding: (SEVERITIES.index(finding.severity), _rank(finding.code), finding.code))


def _rank(code: str) -> int:
    """What the interface is not true to comes before what may only follow from it."""
    return 0 if code.startswith(("SRL-API", "SRL-SPC")) else 1


def _explained(rule: Rule, kinds: set[str]) -> bool:
    return bool(kinds & set(rule.unless)) or (ANY in rule.unless and bool(kinds - {rule.kind}))
