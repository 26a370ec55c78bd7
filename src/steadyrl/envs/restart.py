"""What happens where an environment fails: the run stops, or that environment alone is started anew."""

from __future__ import annotations

import time
from collections.abc import Callable

from steadyrl.seeding import Stream

# Key of a vector environment's infos: bool [N], the environments that failed in this step and were started anew. Their
# row is made up: the first observation of the new episode, reward 0, flags False.
RESTARTED = "steadyrl_restarted"

BACK_OFF_S = 0.1  # wait before the second failure in a row of one environment is answered; doubled with each
MAX_BACK_OFF_S = 5.0


class Restarts:
    """How often environments may be started anew, and with which seeds.

    Args:
        num_envs: N.
        budget: Restarts of all environments together; 0 stops at the first failure.
        root: Root seed of the environments: the seed of a restart depends on it, on the environment and on how often
            that was restarted, on nothing else.
        wait: Sleeps for that many seconds.

    Attributes:
        counts: Restarts of each environment so far.
    """

    def __init__(self, num_envs: int, budget: int, root: int, wait: Callable[[float], None] = time.sleep) -> None:
        self.counts = [0] * num_envs
        self.budget = budget
        self._root = root
        self._wait = wait
        self._in_a_row = [0] * num_envs

    def next_seed(self, index: int, error: BaseException) -> int:
        """The seed to start environment `index` anew with, after a wait where it failed repeatedly.

        Raises:
            BaseException: `error` itself, where the budget is spent.
        """
        if sum(self.counts) >= self.budget:
            raise error
        if self._in_a_row[index]:
            self._wait(min(BACK_OFF_S * 2 ** (self._in_a_row[index] - 1), MAX_BACK_OFF_S))
        self._in_a_row[index] += 1
        self.counts[index] += 1
        return Stream(self._root, f"env/restart-{self.counts[index]}", index).seed()

    def fine(self, index: int) -> None:
        """Environment `index` ended an episode by itself: the next failure is not one in a row."""
        self._in_a_row[index] = 0
