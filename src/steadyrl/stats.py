"""Statistics over episodes and seeds (NumPy only).

Source: Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical precipice", arXiv:2108.13264.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_CHUNK = 2**20  # numbers drawn at once, so that many episodes do not need much memory


def iqm(values: Sequence[float] | FloatArray, axis: int = -1) -> FloatArray:
    """Interquartile mean: the mean without the lowest and the highest floor(n / 4) values."""
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=axis)
    n = ordered.shape[axis]
    cut = n // 4
    return np.asarray(np.take(ordered, range(cut, n - cut), axis=axis).mean(axis=axis))


def bootstrap_ci(
    values: Sequence[float] | FloatArray,
    statistic: Callable[..., FloatArray] | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
) -> tuple[float, float]:
    """Percentile bootstrap interval of a statistic, the mean unless given; the same for the same values.

    Args:
        values: The sample, [n].
        statistic: Takes [any, n] and `axis=-1`.
        confidence: Share of the resampled statistics inside the interval.
        resamples: How many samples of n with replacement are drawn.
    """
    sample = np.asarray(values, dtype=np.float64)
    n, rng = len(sample), np.random.default_rng(0)
    rows = max(1, _CHUNK // n)
    parts = []
    for start in range(0, resamples, rows):
        drawn = sample[rng.integers(0, n, size=(min(rows, resamples - start), n))]
        parts.append(drawn.mean(axis=-1) if statistic is None else statistic(drawn, axis=-1))
    results = np.concatenate(parts)
    tail = (1.0 - confidence) / 2
    low, high = np.quantile(results, [tail, 1.0 - tail])
    return float(low), float(high)
