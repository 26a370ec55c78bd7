"""How much an environment is played. Limits are counts first; CPU seconds bound what a slow environment costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from steadyrl.errors import UserError

_SLOW_S = 5e-4  # of a step; a play of some hundred takes longer than it may, and there are dozens of plays
SEED = 20_260_001  # the first of the seeds that are tried; the others follow it


@dataclass(frozen=True)
class Plan:
    """Budgets of one check.

    Attributes:
        name: `full`, `quick` or `no-side-effects`.
        survey_steps: Steps of many policies that are looked through.
        survey_s: CPU seconds for them; three times as many where the environment waits.
        play_steps: Steps of an episode sequence that is repeated and compared.
        seeds: Seeds of such comparisons.
        play_s: CPU seconds for one sequence.
        long_steps: Steps within which an episode without a limit has to end.
        leak_steps: Steps between two measurements of memory and open files.
        vector_steps: Steps in which a vector version is compared.
        timeout: Seconds that one call of the environment may take.
    """

    name: str
    survey_steps: int
    survey_s: float
    play_steps: int
    seeds: int
    play_s: float
    long_steps: int
    leak_steps: int
    vector_steps: int
    timeout: float = 30.0

    @property
    def alone(self) -> bool:
        """One instance only, and no reset that an episode's end does not ask for."""
        return self.name == "no-side-effects"

    def for_steps_of(self, seconds: float) -> Plan:
        """The plan for an environment whose steps take so long: fewer and shorter comparisons where they are slow."""
        if seconds < _SLOW_S:
            return self
        return replace(self, seeds=min(self.seeds, 2), play_s=min(self.play_s, 0.2))

    @property
    def quick(self) -> bool:
        """As few steps as say anything."""
        return self.name == "quick"


def plan_of(*, quick: bool = False, no_side_effects: bool = False, timeout: float = 30.0) -> Plan:
    """The budgets.

    Raises:
        UserError: both were asked for, or the time is no time.
    """
    if not isinstance(timeout, Real) or not timeout > 0:
        raise UserError(f"timeout is {timeout!r}.", remedy="It is a number of seconds above 0.", code="bad-value")
    if quick and no_side_effects:
        raise UserError(
            "quick and no_side_effects are two ways to check.", remedy="Choose one of them.", code="bad-value"
        )
    common: dict[str, Any] = {"timeout": timeout}
    if no_side_effects:
        return Plan("no-side-effects", 1_000, 5.0, 0, 0, 0.0, 0, 0, 0, **common)
    if quick:
        return Plan("quick", 1_400, 0.4, 80, 2, 0.1, 9_000, 64, 200, **common)
    return Plan("full", 10_000, 2.5, 400, 3, 0.5, 20_000, 256, 300, **common)
