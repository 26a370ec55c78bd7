"""What an evaluation came to: returns and lengths of whole episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steadyrl.stats import bootstrap_ci


@dataclass(frozen=True)
class Evaluation:
    """Raw returns and lengths of whole episodes.

    `ci95` is a percentile bootstrap interval of the mean over these episodes; it says nothing of other training seeds.
    """

    returns: npt.NDArray[np.float64]  # [episodes]
    lengths: npt.NDArray[np.int64]  # [episodes]
    failed: tuple[str, ...] = ()  # what ended the episodes that were left out
    successes: tuple[bool | None, ...] = ()  # what each told as info["is_success"] at its end; () where none did

    def __repr__(self) -> str:
        """One line: what is asked for first, then the episodes, most of many left out."""
        mean, std = (self.mean, self.std) if self.episodes else (np.nan, np.nan)
        failed = f", failed={len(self.failed)}" if self.failed else ""
        rate = "" if self.success_rate is None else f", success_rate={self.success_rate:.6g}"
        each = f"returns={_brief(self.returns)}, lengths={_brief(self.lengths)}"
        return f"Evaluation(mean={mean:.6g}, std={std:.6g}, episodes={self.episodes}{rate}{failed}, {each})"

    @property
    def episodes(self) -> int:
        """How many."""
        return len(self.returns)

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        """Standard deviation of the returns over the episodes."""
        return float(self.returns.std())

    @property
    def success_rate(self) -> float | None:
        """Share of the successful episodes among those that tell whether they are; None where none does."""
        told = [success for success in self.successes if success is not None]
        return sum(told) / len(told) if told else None

    @property
    def ci95(self) -> tuple[float, float]:
        """95% interval of the mean."""
        return bootstrap_ci(self.returns)


def told_successes(successes: list[bool | None]) -> tuple[bool | None, ...]:
    """What each episode told of its success; () where none did."""
    return tuple(successes) if any(success is not None for success in successes) else ()


def _brief(values: npt.NDArray[Any]) -> str:
    return np.array2string(
        values, separator=", ", threshold=10, max_line_width=1000, formatter={"all": lambda value: f"{value:.7g}"}
    )


def left_out(evaluation: Evaluation) -> str:
    """How many episodes failed, and how the last one did."""
    count = f"{len(evaluation.failed)} of {len(evaluation.failed) + evaluation.episodes}"
    return f"{count} evaluation episodes failed and are left out; the last one: {evaluation.failed[-1]}"


Watch = Callable[[int], None]


def unwatched(length: int) -> None:
    """Nobody looks."""
