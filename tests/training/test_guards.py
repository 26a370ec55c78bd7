"""Numbers that nothing may be computed from are found, wherever they are, and large good ones are not."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from steadyrl.training.guards import entry, first_absurd, is_sane


@given(arrays(np.float32, (3, 4), elements=st.floats(width=32) | st.sampled_from([1e18, 9e17, -1e18])))
def test_an_entry_is_found_exactly_where_there_is_one(leaf: Any) -> None:
    bad = [tuple(map(int, i)) for i in np.argwhere(~(np.abs(leaf) <= np.float32(1e18)))]
    found = first_absurd({"good": np.zeros((3, 1), dtype=np.float32), "x": leaf})
    if not bad:
        assert found is None
    else:
        assert found is not None
        assert found[:2] == ("x", bad[0])
        np.testing.assert_array_equal(found[2], leaf[bad[0]])


def test_integers_are_never_absurd() -> None:
    assert first_absurd({"": np.full((2, 2), 2**62)}) is None


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1.1e18, -1.1e18])
def test_numbers_that_are_absurd(number: float) -> None:
    assert not is_sane(number)


@pytest.mark.parametrize("number", [0.0, -1e18, 1e18, 5.0])
def test_numbers_that_are_sane(number: float) -> None:
    assert is_sane(number)


def test_entries_have_a_name() -> None:
    assert entry("", (3,)) == "entry 3"
    assert entry("camera", (1, 2)) == "entry (1, 2) at 'camera'"
    assert entry("", ()) == "entry"
