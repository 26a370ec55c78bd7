"""Numbers that environments tell and that nothing may be computed from: which, where, and what is done about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steadyrl.envs.restart import Restarts
from steadyrl.errors import NonFiniteError

ABSURD = 1e18  # the square of a larger magnitude soon leaves float32
SURE = 0.99 * ABSURD**2  # no entry is larger where the sum of squares, however rounded, is at most this


@dataclass(frozen=True)
class Skipping:
    """An environment that tells a bad number is started anew, and its unfinished episode does not count.

    Attributes:
        restarts: With which seed, and after which wait.
        limit: Broken episodes of one environment in a row that end the run.
        told: Whoever steps the environments says what was left out, so that no warning is needed.
    """

    restarts: Restarts
    limit: int
    told: bool = False


@dataclass(frozen=True)
class Place:
    """Where a number was told: of which environment, in which episode.

    Attributes:
        env: How the environment is called.
        lengths: Steps of the running episodes, [N].
        seeds: What they were reset with, None where an environment drew on, [N].
    """

    env: str
    lengths: npt.NDArray[np.int64]
    seeds: list[int | None]


def bad_entries(
    values: npt.NDArray[Any], told: Any, what: str, key: str, rows: npt.NDArray[np.intp] | None, place: Place
) -> dict[int, NonFiniteError]:
    """The error of each environment that told NaN, infinity or an absurd number; empty where all are good.

    Args:
        values: As they are stored, [B, ...].
        told: The same as the environment told it, with the numbers that leave float32.
        what: How they are called.
        key: The observation's key.
        rows: The environments that they are of, [B]; None for all.
        place: Where they were told.
    """
    flat = values.reshape(len(values), -1)
    bad = ~(np.abs(flat) <= ABSURD)
    found: dict[int, NonFiniteError] = {}
    for row in np.flatnonzero(bad.any(axis=1)):
        entry = int(bad[row].argmax())
        i = int(row if rows is None else rows[row])
        value = np.asarray(told).reshape(flat.shape)[row, entry]
        facts = {"source": "environment", "environment": i, "id": place.env, "what": what, "key": key}
        facts |= {"value": str(value), "episode_step": int(place.lengths[i]), "episode_seed": place.seeds[i]}
        found[i] = _error(entry if values.ndim > 1 else None, value, facts)
    return found


def said(facts: Mapping[str, Any]) -> str:
    """What an environment gave, from the facts of the error, such as `nan as entry 1 of its observation`."""
    where = f" entry {facts['entry']} of" if "entry" in facts else ""
    return f"{facts['value']} as{where} its {facts['what']}"


def _error(entry: int | None, value: Any, facts: dict[str, Any]) -> NonFiniteError:
    facts = facts if entry is None else facts | {"entry": entry}
    seed = "" if facts["episode_seed"] is None else f" (seed {facts['episode_seed']})"
    scale = "" if not np.isfinite(value) else f", and scale or clip it: its magnitude is above {ABSURD:g}"
    return NonFiniteError(
        f"Environment {facts['environment']} ({facts['id']}) gave {said(facts)} "
        f"in step {facts['episode_step']} of its episode{seed}.",
        remedy=f"Find out in the environment where the number comes from{scale}; nothing was trained on it.",
        code="env-absurd" if scale else "env-nonfinite",
        facts=facts,
    )
