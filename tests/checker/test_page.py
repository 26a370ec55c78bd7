"""docs/checker.md explains every rule under an anchor of its own."""

from __future__ import annotations

import re

import pytest

from steadyrl.checker.finding import RULES
from steadyrl.checker.rules import SUBJECTS, rules_of
from support.docs import ROOT, anchors, prose

PAGE = ROOT / "docs" / "checker.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="this copy of the tests comes without docs/")


def test_every_rule_has_its_anchor() -> None:
    assert {code.lower() for code in RULES} <= anchors(PAGE)
    assert {rule.docs for rule in RULES.values()} == {f"docs/checker.md#{code.lower()}" for code in RULES}


def test_every_rule_belongs_to_a_subject() -> None:
    assert sorted(rule.code for module in SUBJECTS.values() for rule in rules_of(module)) == sorted(RULES)


def test_what_it_says_of_a_rule_is_what_the_rule_says() -> None:
    for code, section in re.findall(r"^### (SRL-\S+)\n\n(.*)$", prose(PAGE), re.MULTILINE):
        rule = RULES[code]
        assert section.startswith(f"`{rule.kind}`, {rule.severity}. ")
        assert section.endswith(f"*Remedy:* {rule.remedy}")


def test_the_subjects_name_every_rule() -> None:
    section = prose(PAGE).partition("## What is looked at, and by which rules")[2].partition("\n## ")[0]
    named: set[str] = set()
    for cell in re.findall(r"^\| .* \| (.*) \|$", section, re.MULTILINE)[2:]:
        if "all rules" in cell:
            cell = cell.partition(" and all rules")[0]
        for part in cell.split(", "):
            first, _, last = part.partition(" to ")
            subject, low = first.split("-")
            high = int((last or first).split("-")[1])
            named |= {f"SRL-{subject}-{number:03}" for number in range(int(low), high + 1)}
    assert named == set(RULES)
