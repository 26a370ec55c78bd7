"""Whether the scores of two sets of seeds are the same within a margin: two one-sided tests, by bootstrap. No torch.

Failing to find a difference proves nothing; equivalence is shown when the whole interval of the difference lies inside
a margin that was chosen beforehand (Schuirmann 1987). The statistic is the interquartile mean over seeds (Agarwal et
al. 2021, arXiv:2108.13264).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from steadyrl.errors import UserError
from steadyrl.stats import iqm
from steadyrl.training.files import read_json
from steadyrl.training.record_form import MANIFEST, checked, require

LEAST = 3  # seeds of each set
MARGIN = 0.1  # of the first set's interquartile mean
_RESAMPLES = 20_000


@dataclass(frozen=True)
class Equivalence:
    """What two sets of scores say.

    Attributes:
        first: Interquartile mean of the first set.
        second: Interquartile mean of the second set.
        low: Lower end of the interval of `second - first`, of confidence 1 - 2 alpha.
        high: Its upper end.
        margin: Differences smaller than this count as none.
        seeds: How many scores each set has.
    """

    first: float
    second: float
    low: float
    high: float
    margin: float
    seeds: tuple[int, int]

    @property
    def equivalent(self) -> bool:
        """Both one-sided tests reject a difference as large as the margin."""
        return -self.margin < self.low and self.high < self.margin

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {"equivalent": self.equivalent, **asdict(self)}

    def __str__(self) -> str:
        said = "Equivalent" if self.equivalent else "Not shown to be equivalent"
        return (
            f"{said}: interquartile means {self.first:.2f} and {self.second:.2f} over {self.seeds[0]} and "
            f"{self.seeds[1]} seeds; 90% interval of the difference {self.low:.2f}..{self.high:.2f}, "
            f"margin {self.margin:.2f}."
        )


def equivalence(
    first: Sequence[float], second: Sequence[float], margin: float | None = None, alpha: float = 0.05
) -> Equivalence:
    """Compare two sets of final scores, one score a seed.

    Args:
        first: Scores.
        second: Scores of other runs of the same training.
        margin: In the unit of the scores, above 0; None is a tenth of the first set's interquartile mean.
        alpha: Level of each of the two tests.

    Raises:
        UserError: there are too few scores, or the margin is not above 0.
    """
    a, b = (np.asarray(scores, dtype=np.float64) for scores in (first, second))
    if min(len(a), len(b)) < LEAST:
        raise UserError(
            f"There are {len(a)} and {len(b)} runs with a final score, and {LEAST} of each are needed.",
            remedy="Train more seeds.",
            code="too-few-runs",
        )
    means = float(iqm(a)), float(iqm(b))
    width = MARGIN * abs(means[0]) if margin is None else margin
    if not 0 < width < float("inf"):
        raise UserError(
            f"The margin is {width}, but it must be above 0.",
            remedy="Give --margin the smallest difference of scores that would matter to you.",
            code="bad-value",
        )
    rng = np.random.default_rng(0)
    drawn = [iqm(scores[rng.integers(0, len(scores), (_RESAMPLES, len(scores)))]) for scores in (a, b)]
    low, high = np.quantile(drawn[1] - drawn[0], [alpha, 1.0 - alpha])
    return Equivalence(*means, float(low), float(high), width, (len(a), len(b)))


def final_score(run: Path) -> float | None:
    """Mean return of a finished run's final evaluation; None for any other run."""
    try:
        manifest = read_json(run / "manifest.json")
        score = manifest["eval"]["mean"] if manifest["status"] == "finished" else None
    except (ValueError, KeyError, TypeError):
        return None
    return float(score) if isinstance(score, int | float) else None


def what_of(run: Path) -> tuple[str, str]:
    """Algorithm and environment of a run, which have to be the same in both sets. Raises UserError."""
    path = run / "manifest.json"
    manifest = checked(path, read_json(path), MANIFEST)
    require(path, manifest, ("algo", "env"))
    return manifest["algo"], str(manifest["env"].get("id"))
