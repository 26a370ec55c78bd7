"""Rules about observations: their form, their values, and what a learner makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from steadyrl.checker.finding import Found, rule
from steadyrl.checker.probe.acting import Acting
from steadyrl.checker.probe.survey import Survey
from steadyrl.checker.rules.telling import of_seen, of_split

_ENOUGH = 500  # observations, from episodes of several seeds and policies
_EPISODES = 5
# A fresh network's weights are of order 0.1 to 1 and move by some 1e-4 a step. An input of 1e3 drives every unit that
# it reaches to where it saturates or drowns the others; through one of 1e-5 a thousand steps change next to nothing.
_LARGE = 1e3
_SMALL = 1e-5
_BESIDE = 1e4  # times the usual entry, of inputs that are not large by themselves

_CERTAIN = 5_000  # observations, for parts that may stand for something rare
_FORMS = {
    "type": (
        "SRL-OBS-001",
        "obs-type",
        "an observation is of another type than its space says",
        "Return NumPy arrays.",
    ),
    "dtype": (
        "SRL-OBS-002",
        "obs-dtype",
        "an observation has another dtype than its space says",
        "Convert it with .astype(self.observation_space.dtype), or declare the dtype that comes.",
    ),
    "shape": (
        "SRL-OBS-003",
        "obs-shape",
        "an observation has another shape than its space says",
        "Make observation and space agree, at reset and at every step.",
    ),
    "keys": (
        "SRL-OBS-004",
        "obs-keys",
        "an observation has other keys than its space says",
        "Return every key of the Dict space each time, and no other.",
    ),
    "not-finite": (
        "SRL-OBS-005",
        "obs-not-finite",
        "an observation holds NaN or infinity",
        "Find the division or overflow that makes it; one such value ends a training.",
    ),
    "out-of-space": (
        "SRL-OBS-006",
        "obs-out-of-space",
        "an observation lies outside its space",
        "Widen the bounds to all that can come, or clip.",
    ),
}


def _form_rule(form: str) -> Callable[[Survey], Iterator[Found]]:
    def find(survey: Survey) -> Iterator[Found]:
        faults = [(key, seen) for (kind, key), seen in survey.forms.items() if kind == form]
        for key, seen in sorted(faults, key=lambda item: item[1].place.step)[:1]:
            where = f" at {key}" if key else ""
            yield Found(
                f"The observation{where} is {seen.what.found} instead of {seen.what.expected} {seen.place}"
                f"{f', and {seen.count - 1} more times' if seen.count > 1 else ''}.",
                seen.place.evidence | {"key": key, "value": seen.what.found, "expected": seen.what.expected},
            )

    find.__doc__ = f"Observations of a wrong {form}."
    return find


for _form, (_code, _kind, _what, _remedy) in _FORMS.items():
    rule(_code, _kind, "error", "survey", _what, _remedy)(_form_rule(_form))


@rule(
    "SRL-OBS-007",
    "obs-aliased",
    "error",
    "survey",
    "an observation changes after it was returned",
    "Return a copy: self.buffer.copy(). A replay buffer would hold the same values everywhere.",
)
def aliased(survey: Survey) -> Iterator[Found]:
    """What was returned belongs to the caller."""
    seen = survey.kept.get("observation")
    yield from of_seen(seen, "The observation that was returned {place} changed afterwards: {what}.")


@rule(
    "SRL-OBS-008",
    "dead-feature",
    "warning",
    "survey",
    "an entry of the observation never changes",
    "Leave it out, or find out why nothing sets it.",
)
def dead_feature(survey: Survey) -> Iterator[Found]:
    """An entry that is the same in all episodes tells nothing."""
    if not _enough(survey):
        return
    rows = survey.rows
    still = (rows == rows[0]).all(0)
    dead = np.flatnonzero(still & (survey.continuous | _whole_parts(survey, still)))
    if len(dead) == 0 or len(dead) == len(survey.names):
        return
    names = [survey.names[i] or f"[{i}]" for i in dead]
    shown = ", ".join(f"{name} ({rows[0][k]:g})" for name, k in zip(names[:6], dead, strict=False))
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    yield Found(
        f"The observation's {shown}{more} never changed in {len(rows)} steps of {len(survey.episodes)} episodes.",
        {"key": names[0], "value": float(rows[0][dead[0]]), "count": len(names)},
    )


def _whole_parts(survey: Survey, still: Any) -> Any:
    """Entries of integers, where nothing of their whole part ever changed in very many observations, [D]."""
    if len(survey.rows) < _CERTAIN:
        return np.zeros_like(still)
    moving = np.unique(survey.parts[~still])
    return ~np.isin(survey.parts, moving)


@rule(
    "SRL-OBS-011",
    "dead-feature",
    "warning",
    "survey",
    "a picture in the observation never changes",
    "Draw it anew at each step, or leave it out.",
)
def still_picture(survey: Survey) -> Iterator[Found]:
    """Nothing moves in any episode."""
    several = {episode.seed for episode in survey.episodes if episode.length > 1}
    if survey.still and survey.steps >= _ENOUGH and len(several) >= _EPISODES:
        where = f" at {survey.still[0]}" if survey.still[0] else ""
        yield Found(
            f"The picture{where} was the same in {survey.steps} steps of {len(survey.episodes)} episodes.",
            {"key": survey.still[0]},
        )


@rule(
    "SRL-OBS-010",
    "obs-key-order",
    "note",
    "survey",
    "the keys of an observation come in changing order",
    "Build the dict in one place; whoever joins its values gets them in another order each time.",
)
def key_order(survey: Survey) -> Iterator[Found]:
    """Keys are a set, but some code goes through them in order."""
    yield from _form_rule("order")(survey)


@rule(
    "SRL-OBS-009",
    "obs-scale",
    "warning",
    "survey",
    "an entry of the observation is far from order 1",
    "Divide it by its usual size, or train with normalize_obs.",
)
def scale(survey: Survey) -> Iterator[Found]:
    """A network is made for inputs of order 1."""
    if survey.rows is None or len(survey.rows) < 50:
        return
    rows = np.where(np.isfinite(survey.rows), survey.rows, 0.0)
    sizes = np.sqrt(np.square(np.clip(rows, -1e150, 1e150)).mean(0))
    sizes = np.where(survey.continuous, sizes, 0.0)
    if not sizes.any():
        return
    largest = int(sizes.argmax())
    usual = _usual(sizes, largest)
    if sizes[largest] > _LARGE or (sizes[largest] > _BESIDE * usual and sizes[largest] > 10):
        yield _of_size(survey, largest, sizes, usual)
    moving = np.where(np.ptp(rows, axis=0) > 0, sizes, np.inf)
    moving[sizes == 0] = np.inf
    smallest = int(moving.argmin())
    usual = _usual(sizes, smallest)
    if moving[smallest] < _SMALL and usual > 1e3 * moving[smallest]:
        yield _of_size(survey, smallest, sizes, usual)


def _usual(sizes: Any, but: int) -> float:
    """The median size of the other entries."""
    others = np.delete(sizes, but)
    return float(np.median(others[others > 0])) if (others > 0).any() else 1.0


def _of_size(survey: Survey, i: int, sizes: Any, usual: float) -> Found:
    name = survey.names[i] or f"[{i}]"
    against = f", beside others of {usual:.2g}" if len(sizes) > 1 else ""
    return Found(
        f"The observation's {name} is of size {sizes[i]:.2g} (root mean square){against}.",
        {"key": name, "value": float(sizes[i]), "others": usual},
    )


def _enough(survey: Survey) -> bool:
    several = {episode.seed for episode in survey.episodes if episode.length}
    return survey.rows is not None and len(survey.rows) >= _ENOUGH and len(several) >= _EPISODES


@rule(
    "SRL-OBS-012",
    "obs-kept",
    "warning",
    "acting",
    "the environment reads the arrays back that it returned",
    "Return a copy: self.state.copy(). A wrapper that scales observations in place would change the environment.",
    unless=("obs-aliased",),
)
def kept(acting: Acting) -> Iterator[Found]:
    """Writing into an observation after the step changes the course."""
    yield from of_split(
        acting.obs_kept,
        "After the caller had written into an observation that was returned, the course changed: {where}.",
    )
