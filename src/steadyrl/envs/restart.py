"""What happens where an environment fails: the run stops, or that environment alone is started anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from steadyrl.envs.failure import Failure
from steadyrl.errors import SteadyRLError
from steadyrl.seeding import Stream

# Key of a vector environment's infos: bool [N], the environments that failed in this step and were started anew. Their
# row is made up: the first observation of the new episode, reward 0, flags False.
RESTARTED = "steadyrl_restarted"

BACK_OFF_S = 0.1  # wait before the second failure in a row of one environment is answered; doubled with each
MAX_BACK_OFF_S = 5.0


class Restart(NamedTuple):
    """One environment started anew, with which seed, and why."""

    env_index: int
    seed: int
    reason: str
    failure: Failure | None


class Restarts:
    """How often environments may be started anew, and with which seeds.

    Args:
        num_envs: N.
        budget: Restarts of all environments together; 0 stops at the first failure.
        root: Root seed of the environments: the seed of a restart depends on it, on the environment and on how often
            that was restarted, on nothing else.
        wait: Sleeps for that many seconds.

    Attributes:
        counts: Restarts of each environment so far, [N].
        pending: Those that nobody has told of yet, in order; whoever tells of them takes them out.
    """

    def __init__(self, num_envs: int, budget: int, root: int, wait: Callable[[float], None] = time.sleep) -> None:
        self.counts = [0] * num_envs
        self.pending: list[Restart] = []
        self.budget = budget
        self._root = root
        self._wait = wait
        self._in_a_row = [0] * num_envs

    @property
    def total(self) -> int:
        """Restarts of all environments so far."""
        return sum(self.counts)

    def next_seed(self, index: int, error: BaseException) -> int:
        """The seed to start environment `index` anew with, after a wait where it failed repeatedly.

        Raises:
            BaseException: `error` itself, where the budget is spent; its remedy then says how many restarts there were.
        """
        if self.total >= self.budget:
            self._tell(error)
            raise error
        if self._in_a_row[index]:
            self._wait(min(BACK_OFF_S * 2 ** (self._in_a_row[index] - 1), MAX_BACK_OFF_S))
        self._in_a_row[index] += 1
        self.counts[index] += 1
        seed = Stream(self._root, f"env/restart-{self.counts[index]}", index).seed()
        failure = getattr(error, "failure", None)
        if failure and failure.env_index != index:  # of one that shared a process with this environment
            failure = None
        reason = str(failure.error if failure else getattr(error, "message", error))
        self.pending.append(Restart(index, seed, reason, failure))
        return seed

    def fine(self, index: int) -> None:
        """Environment `index` ended an episode by itself: the next failure is not one in a row."""
        self._in_a_row[index] = 0

    def state(self) -> dict[str, list[int]]:
        """What seeds and waits go on from."""
        return {"counts": list(self.counts), "in_a_row": list(self._in_a_row)}

    def restore(self, state: dict[str, list[int]]) -> None:
        """Go on where `state` was taken."""
        self.counts, self._in_a_row = list(state["counts"]), list(state["in_a_row"])

    def _tell(self, error: BaseException) -> None:
        if isinstance(error, SteadyRLError) and self.total:
            times = "once" if self.total == 1 else f"{self.total} times"
            told = f"Environments were started anew {times} before, all that env_restart_budget allows."
            error.remedy = f"{error.remedy} {told}".lstrip()
