"""Masks read from whatever form they come in, and choices among what they allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from steadyrl.errors import UserError
from steadyrl.spaces import ActionSpec, ObsSpec
from steadyrl.spaces.masks import MASK, MaskedSpec, mask_width, pick_allowed, read_mask, read_masks

FOUR = ActionSpec.of(gs.Discrete(4, start=-1))
PARTS = ActionSpec.of(gs.MultiDiscrete([2, 3]))


@pytest.mark.parametrize(
    "value",
    [
        [True, False, False, True],
        [1, 0, 0, 1],
        np.array([1.0, 0.0, 0.0, 0.5], dtype=np.float32),
        np.array([[1], [0], [0], [-2]], dtype=np.int8),
        (1, 0, 0, 1),
    ],
)
def test_every_form_of_a_mask_is_the_same_mask(value: Any) -> None:
    mask = read_mask(value, FOUR, "X")
    assert mask.dtype == np.bool_
    np.testing.assert_array_equal(mask, [True, False, False, True])


@pytest.mark.parametrize(
    "value",
    [
        (np.array([1, 0], np.int8), np.array([0, 1, 1], np.int8)),
        [[True, False], [False, True, True]],
        (np.array([1.0, 0.0]), [0, 1, 1]),
        np.array([np.array([1, 0]), np.array([0, 1, 1])], dtype=object),
        [1, 0, 0, 1, 1],
    ],
)
def test_parts_of_a_mask_are_taken_one_after_the_other(value: Any) -> None:
    np.testing.assert_array_equal(read_mask(value, PARTS, "X"), [True, False, False, True, True])


def test_a_mask_in_parts_is_what_gymnasium_samples_by() -> None:
    space = gs.MultiDiscrete(np.array([[2, 3], [2, 2]]))
    parts = ((np.array([0, 1]), np.array([1, 0, 0])), (np.array([1, 0]), np.array([0, 1])))
    told: Any = tuple(tuple(part.astype(np.int8) for part in row) for row in parts)
    mask = read_mask(told, ActionSpec.of(space), "X")
    chosen = space.sample(mask=told)
    ends = np.cumsum([0, 2, 3, 2])
    assert mask.sum() == 4
    np.testing.assert_array_equal(np.flatnonzero(mask), ends + chosen.ravel())


def test_a_mask_that_was_read_is_a_copy() -> None:
    given_one = np.array([True, False, True, True])
    mask = read_mask(given_one, FOUR, "X")
    given_one[:] = False
    assert mask.any()


@pytest.mark.parametrize(
    ("value", "spec", "said"),
    [
        ([0, 0, 0, 0], FOUR, "The action mask of X allows nothing."),
        ([1, 1, 0, 0, 0], PARTS, "The action mask of X allows nothing for entry 1 of the action."),
        ([1, 1, 1], FOUR, "has 3 entries, but the actions have 4"),
        ([1, 1, 1, 1], PARTS, "has 4 entries, but the actions have 5"),
        ("1111", FOUR, "is a str that is not an array of truth values"),
        ([1.0, np.nan, 0.0, 0.0], FOUR, "holds NaN"),
        ([[1, 0], [1]], FOUR, "is a list that is not an array of truth values"),
        (([1, 0, 1], [1, 1]), PARTS, "X has 3 entries in part 0, but entry 0 of the action has 2 values"),
        (([1, 0], [1, 1, 1], [1]), PARTS, "X has 3 parts, but the actions have 2 entries"),
        (([1, 0], [0, 0, 0]), PARTS, "The action mask of X allows nothing for entry 1 of the action."),
        (([1, 0], "abc"), PARTS, "is a tuple that is not an array of truth values"),
        (([1, 0], [1.0, np.nan, 1.0]), PARTS, "holds NaN"),
        (([1, 0, 1], [1, 1, 0]), ActionSpec.of(gs.MultiDiscrete([2, 4])), "3 entries in part 0, but entry 0"),
    ],
)
def test_what_is_no_mask_is_refused_in_words(value: Any, spec: ActionSpec, said: str) -> None:
    with pytest.raises(UserError) as caught:
        read_mask(value, spec, "X")
    assert said in caught.value.message


def test_a_batch_has_one_mask_a_row() -> None:
    masks = read_masks([[1, 0, 0, 1], [0, 0, 1, 0]], FOUR, "X")
    np.testing.assert_array_equal(masks, [[1, 0, 0, 1], [0, 0, 1, 0]])
    with pytest.raises(UserError, match="allows nothing"):
        read_masks([[1, 0, 0, 1], [0, 0, 0, 0]], FOUR, "X")


def test_only_discrete_and_multidiscrete_actions_have_masks() -> None:
    assert mask_width(FOUR) == 4
    assert mask_width(PARTS) == 5
    assert mask_width(ActionSpec.of(gs.MultiBinary(3))) == 0
    assert mask_width(ActionSpec.of(gs.Box(-1.0, 1.0, (2,)))) == 0


def test_stored_observations_have_the_mask_as_one_more_leaf_and_the_space_has_not() -> None:
    obs = ObsSpec.of(gs.Box(-1.0, 1.0, (3,)))
    zeros = MaskedSpec(obs, PARTS).zeros(2)
    assert {path: leaf.shape for path, leaf in zeros.items()} == {"": (2, 3), MASK: (2, 5)}
    assert list(obs.by_path) == [""]


@given(hnp.arrays(np.bool_, st.tuples(st.just(1), st.integers(1, 40))), st.floats(0.0, 1.0, exclude_max=True, width=32))
def test_a_number_picks_the_allowed_action_of_its_share(masks: Any, uniform: float) -> None:
    masks[0, len(masks[0]) // 2] = True
    places = np.flatnonzero(masks[0])
    (picked,) = pick_allowed(masks, np.array([uniform], dtype=np.float32))
    assert picked == places[int(uniform * len(places))]
