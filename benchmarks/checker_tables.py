"""The generated blocks of docs/checker.md: rules, score, and what was found in environments of others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from steadyrl.checker.rules import SUBJECTS, rules_of

RESULT = Path(__file__).parent / "results" / "checker.json"
PENDING = "No result is stored yet.\n"

Table = Callable[[Iterable[str], Iterable[Iterable[str]]], str]

# Why a finding in somebody else's environment is right, or may be lived with: (part of the id, kind) -> reason.
WHY: dict[tuple[str, str], str] = {
    ("LunarLander", "obs-out-of-space"): "Right: the lander can fly higher and faster than the bounds say.",
    ("BipedalWalker", "obs-out-of-space"): "Right: the hull can turn further than the bounds say when it falls.",
    ("BipedalWalker", "reset-leak"): "Right: the world of Box2D outlives a reset, and its solver remembers contacts.",
    ("CliffWalking", "step-after-end"): "Right: its table of transitions goes on from the goal as from any other cell.",
    ("MountainCarContinuous", "obs-kept"): "Right: step() returns the array that holds its state.",
    ("Acrobot", "step-after-end"): "Right: the pendulum swings on, and back below the line that ends an episode.",
    ("parking", "goal-reward-mismatch"): "Right: step() adds what a crash costs, which compute_reward() does not know.",
    ("parking", "dead-feature"): "Right: the goal stands still and is parallel to an axis.",
    ("BabyAI", "stdout-noise"): "Right: it prints each mission that it draws in vain.",
    ("MiniGrid", "step-after-end"): "Right: the agent walks on out of the lava.",
    ("Taxi", "step-after-end"): "Right: its table of transitions goes on after the passenger was set down.",
    ("Pusher", "dead-feature"): "Right: the goal and the heights never change; they can be left out.",
    ("InvertedDoublePendulum", "dead-feature"): "Right: this constraint force is 0 unless the slider meets its end.",
    ("Ant", "dead-feature"): "Right for the policies here: contact forces of bodies that touch nothing stay 0.",
    ("Humanoid", "dead-feature"): "Right: masses are constant, and contact forces of bodies that touch nothing stay 0.",
    ("FrozenLake8x8", "reward-constant"): "The goal is rarely come to at random: exploration is the difficulty.",
}


def rules() -> str:
    """Each rule under an anchor of its own."""
    parts = []
    for subject, module in SUBJECTS.items():
        parts.append(f"**{subject}.** {(module.__doc__ or '').strip()}\n")
        for rule in rules_of(module):
            doc = " ".join((rule.find.__doc__ or "").split())
            what = f"{rule.what[0].upper()}{rule.what[1:]}."
            parts.append(f"### {rule.code}\n\n`{rule.kind}`, {rule.severity}. {what} {doc} *Remedy:* {rule.remedy}\n")
    return "\n".join(parts)


NAMES = {
    "first": "SteadyRL, first contact",
    "steadyrl": "SteadyRL",
    "gymnasium": "Gymnasium 1.4.0",
    "sb3": "Stable-Baselines3 2.9.2",
}


def score(table: Table) -> str:
    """Our score on the labelled set beside the peers'."""
    return _score(table, "corpus", "by the others where they say anything that names it.")


def unseen(table: Table) -> str:
    """The same on a set that nobody had seen who wrote the rules, and what became of what was missed."""
    text = _score(table, "unseen", "by the others where they say anything at all, so that theirs are upper bounds.")
    document = _stored("unseen")
    if document is None:
        return text
    missed = [row for row in document["rows"] if not row["sound"] and not row["first"]]
    found = sum(row.get("right", False) for row in missed)
    sound = [row for row in document["rows"] if row["sound"] and "right" in row]
    return text + (
        f"\nOf the {len(missed)} that were missed then, {found} are found in full checks by the widened rules; of the "
        f"{len(sound)} sound ones that\nwere checked again in full, {sum(row['right'] for row in sound)} pass.\n"
    )


def _score(table: Table, part: str, others: str) -> str:
    document = _stored(part)
    if document is None:
        return PENDING
    told = document["score"]
    rows = [
        (name, f"{told[key]['found']} of {told['faulty']}", f"{told[key]['passed']} of {told['sound']}")
        for key, name in NAMES.items()
        if key in told
    ]
    quick = sum(row.get("first_plan", row["plan"]) == "quick" for row in document["rows"])
    note = f"\n{quick} of the {len(document['rows'])} were checked with `--quick`.\n" if quick else ""
    return (
        table(("checker", "faults found", "sound ones passed"), rows)
        + note
        + "\nA fault counts as found by SteadyRL where kind and severity are right and nothing else is reported"
        + (f";\n{others}\n" if "sb3" in told else ".\n")
    )


def registered(table: Table) -> str:
    """Findings in environments of others, each with the reason."""
    document = _stored("registered")
    if document is None:
        return PENDING
    checked = [row for row in document["rows"] if "findings" in row]
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for row in checked:
        for finding in row["findings"]:
            group = finding["kind"], finding["severity"], _why(row["env"], finding["kind"])
            if row["env"] not in grouped.setdefault(group, []):
                grouped[group].append(row["env"])
    rows = [(f"`{kind}`", severity, ", ".join(envs), why) for (kind, severity, why), envs in sorted(grouped.items())]
    clean = sum(not row["findings"] for row in checked)
    refused = sorted(row["env"] for row in document["rows"] if "refused" in row)
    quick = sum(row["plan"] == "quick" for row in checked)
    note = f"\n{clean} of the {len(checked)} have neither errors nor warnings; {quick} were checked with `--quick`."
    if refused:
        note += f" Not checked, for want of their packages: {', '.join(refused)}."
    return table(("kind", "severity", "environments", "why"), rows) + note + "\n"


def _why(env: str, kind: str) -> str:
    return next((why for (part, known), why in WHY.items() if known == kind and part in env), "")


def _stored(part: str) -> Any:
    return json.loads(RESULT.read_text()).get(part) if RESULT.exists() else None


def times(table: Table) -> str:
    """What a check takes."""
    document = _stored("times")
    if document is None:
        return PENDING
    rows = [
        (env, *(f"{told[plan]['cpu_s']:.1f}" for plan in ("full", "quick"))) for env, told in document["envs"].items()
    ]
    return table(("environment", "full, CPU s", "quick, CPU s"), rows)
