"""Whether the step of an episode can be read from its observation."""

from __future__ import annotations

from typing import Any

import numpy as np

from steadyrl.checker.probe.survey import Survey

_WITHIN = 0.5  # steps: closer than that is the right step
_ROWS = 4_000
_SUPPORT = 3  # episodes that agree; two may do so by chance


def clock_is_observed(survey: Survey, longest: int) -> bool:
    """Whether the observation tells the step, as an entry of its own or by a sum over entries, or that the end is next.

    Args:
        survey: Its features, and the step of each.
        longest: The step that has to be told from the others.
    """
    rows, steps, episodes = survey.rows[:_ROWS], survey.row_steps[:_ROWS], survey.row_episodes[:_ROWS]
    good = np.isfinite(rows).all(1)
    rows, steps, episodes = rows[good], steps[good], episodes[good]
    if _is_an_entry(rows, steps, longest) or _is_a_sum(rows, steps, episodes):
        return True
    return _tells_the_end(survey, longest)


def _is_an_entry(rows: Any, steps: Any, longest: int) -> bool:
    """Entries that are a function of the step alone, and another one before the last step than anywhere else."""
    spread = rows.max(0) - rows.min(0)
    fixed = spread > 0
    table = {}
    for step in np.unique(steps):
        here = rows[steps == step]
        if len(here) > 1:
            fixed &= here.max(0) - here.min(0) <= 1e-6 * spread
        table[int(step)] = here[0]
    if not fixed.any() or longest - 1 not in table:
        return False
    last = table.pop(longest - 1)[fixed]
    return not any(np.allclose(last, row[fixed], rtol=1e-6, atol=1e-9) for row in table.values())


def _is_a_sum(rows: Any, steps: Any, episodes: Any) -> bool:
    """A linear fit of the step over half of the episodes that holds for the other half."""
    wide = np.concatenate([rows, np.abs(rows), rows != 0, np.ones((len(rows), 1))], axis=1)
    if 4 * wide.shape[1] > len(rows):
        return False
    learnt = episodes % 2 == 0
    if not learnt.any() or learnt.all():
        return False
    weights = np.linalg.lstsq(wide[learnt], steps[learnt].astype(float), rcond=None)[0]
    errors = np.abs(wide[~learnt] @ weights - steps[~learnt])
    return bool(np.quantile(errors, 0.95) < _WITHIN)


def _tells_the_end(survey: Survey, longest: int) -> bool:
    """A value of an entry, or of the sum of a part, after which episodes always terminate, such as an empty deck."""
    ended = np.array([episode.complete and episode.own == (True, False) for episode in survey.episodes])
    left = np.array([episode.length for episode in survey.episodes])[survey.row_episodes] - survey.row_steps
    before, going = ended[survey.row_episodes] & (left == 1), left > 0
    last = before & (survey.row_steps == longest - 1)
    if last.sum() < _SUPPORT:
        return False
    sums = [survey.rows[:, survey.parts == part].sum(1) for part in np.unique(survey.parts)]
    for values in (*survey.rows.T, *sums):
        told = values[last]
        if (told == told[0]).all() and before[going & (values == told[0])].all():
            return True
    return False
