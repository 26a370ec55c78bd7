"""The sum tree finds every entry in proportion to its priority, and none of priority 0."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyrl.data.sum_tree import SumTree


def tree_of(*priorities: float) -> SumTree:
    tree = SumTree(len(priorities))
    tree.update(np.arange(len(priorities)), np.array(priorities))
    return tree


@given(data=st.data(), size=st.integers(1, 600))
@settings(max_examples=150, deadline=None)
def test_shares_fall_where_a_running_sum_says(data: st.DataObject, size: int) -> None:
    """Whole numbers, whose sums are exact, so that the plain search must agree entry by entry."""
    tree, plain = SumTree(size), np.zeros(size)
    for _ in range(data.draw(st.integers(1, 4))):
        entries = st.tuples(st.integers(0, size - 1), st.integers(0, 5))
        changes = np.array(data.draw(st.lists(entries, min_size=1, max_size=40)))
        tree.update(changes[:, 0], changes[:, 1])
        for index, priority in changes:
            plain[index] = priority  # the last one of an entry counts
    assert tree.total == plain.sum()
    np.testing.assert_array_equal(tree[:], plain)
    if plain.sum() == 0:
        with pytest.raises(ValueError, match="all priorities are 0"):
            tree.sample(np.array([0.5]))
        return
    points = np.arange(plain.sum()) + 0.5
    expected = np.searchsorted(plain.cumsum(), points, side="right")
    np.testing.assert_array_equal(tree.sample(points / plain.sum()), expected)


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(0.0, 1e300), st.floats(0.0, 1e-300)), min_size=1, max_size=300),
    st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=50),
)
@settings(max_examples=200, deadline=None)
def test_priority_0_is_never_found_whatever_the_rounding(priorities: list[float], shares: list[float]) -> None:
    tree = tree_of(*priorities)
    if not 0 < tree.total < np.inf:
        return
    ends = [0.0, float(np.nextafter(1.0, 0.0))]
    assert (tree[tree.sample(np.array(shares + ends))] > 0).all()


def test_the_ends_of_the_range() -> None:
    tree = tree_of(0.0, 1.0, 0.0, 2.0, 0.0)
    shares = np.array([0.0, 1 / 3 - 1e-12, 1 / 3 + 1e-12, np.nextafter(1.0, 0.0)])
    assert tree.sample(shares).tolist() == [1, 1, 3, 3]


def test_what_is_left_of_a_share_can_round_up_to_the_whole_of_a_block() -> None:
    """(1 + 3 eps) - 1.5 eps is 1 + 2 eps in float64, all that the second block holds."""
    eps = 2.0**-52
    tree = SumTree(32)
    tree.update(np.array([0, 16]), np.array([1.5 * eps, 1 + 2 * eps]))
    assert tree.total == 1 + 4 * eps
    assert tree.sample(np.array([np.nextafter(1.0, 0.0)])).tolist() == [16]


def test_nothing_drifts() -> None:
    """After many large and small priorities the sums are those of a tree that only ever saw the last ones."""
    rng = np.random.default_rng(0)
    tree = SumTree(5000)
    for scale in (1e12, 1e-12, 1e6, 1.0):
        for _ in range(20):
            tree.update(rng.integers(0, 5000, 256), rng.random(256) * scale)
    fresh = tree_of(*tree[:])
    assert tree.total == fresh.total
    shares = rng.random(2000)
    assert tree.sample(shares).tolist() == fresh.sample(shares).tolist()
    tree.update(np.arange(5000), np.zeros(5000))
    assert tree.total == 0.0


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_a_priority_that_is_none_is_refused(bad: float) -> None:
    tree = tree_of(1.0, 2.0)
    with pytest.raises(ValueError, match="finite and at least 0"):
        tree.update(np.array([0, 1]), np.array([5.0, bad]))
    assert (tree.total, tree[:].tolist()) == (3.0, [1.0, 2.0])


@pytest.mark.parametrize(("size", "blocks"), [(1, 1), (16, 1), (17, 2 + 1), (256, 16 + 1), (257, 17 + 2 + 1)])
def test_size_in_bytes(size: int, blocks: int) -> None:
    assert SumTree.bytes_for(size) == blocks * 16 * 8


def test_a_copy_is_given_out() -> None:
    tree = tree_of(1.0, 2.0)
    tree[:][0] = 9.0
    assert tree[np.array([0])].tolist() == [1.0]
