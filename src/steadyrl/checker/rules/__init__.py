"""All rules, by subject; importing this enters them into `finding.RULES`."""

from __future__ import annotations

from types import ModuleType

from steadyrl.checker.finding import RULES, Rule
from steadyrl.checker.rules import (
    actions,
    episodes,
    fitting,
    goals,
    infos,
    observations,
    processes,
    protocol,
    rendering,
    resources,
    rewards,
    seeding,
    spaces,
    times,
    vectors,
)

SUBJECTS = {
    "Spaces and specification": spaces,
    "Calls": protocol,
    "Observations": observations,
    "Seeds, chance, episodes and instances": seeding,
    "Ends of episodes": episodes,
    "Actions": actions,
    "Rewards": rewards,
    "Info and masks": infos,
    "Goals": goals,
    "Vector versions": vectors,
    "Process": processes,
    "Time": times,
    "Memory and files": resources,
    "Rendering": rendering,
    "What can be done with it": fitting,
}


def rules_of(module: ModuleType) -> list[Rule]:
    """The rules that a module defines, by code."""
    return sorted(
        (rule for rule in RULES.values() if rule.find.__module__ == module.__name__), key=lambda rule: rule.code
    )
