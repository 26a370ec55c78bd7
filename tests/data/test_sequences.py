"""Sequences of whole environments, cut where episodes start."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from steadyrl.data.rollout import RolloutBatch
from steadyrl.data.sequences import SequenceBatch, cut

STARTS = hnp.arrays(np.bool_, st.tuples(st.integers(1, 12), st.integers(1, 5)))


def rollout(starts: Any, valid: Any) -> SequenceBatch:
    """Each part of a row is its number."""
    number = torch.arange(starts.size, dtype=torch.float32)
    states = torch.arange(starts.shape[1], dtype=torch.float32)[:, None]
    return SequenceBatch(RolloutBatch({"": number[:, None]}, *[number] * 5), valid, starts, states)


@given(STARTS)
def test_pieces_are_runs_of_steps_of_one_environment_that_begin_where_episodes_do(starts: Any) -> None:
    length, n = starts.shape
    pieces, begins, places = cut(starts)
    assert sorted(places.tolist()) == sorted(set(places.tolist()))  # every row has a place of its own
    step, piece = np.divmod(places, pieces.shape[1])
    np.testing.assert_array_equal(pieces[step, piece], np.arange(length * n))
    for row in range(length * n):
        t, env = divmod(row, n)
        begins_here = t == 0 or starts[t, env]
        assert (step[row] == 0) == begins_here
        if begins_here:
            assert begins[piece[row]] == (env if t == 0 and not starts[0, env] else n)
        else:
            assert piece[row] == piece[row - n]
            assert step[row] == step[row - n] + 1


@given(STARTS, st.data())
def test_a_minibatch_has_the_rows_of_its_environments_that_count_in_the_order_of_time(starts: Any, data: Any) -> None:
    length, n = starts.shape
    valid = data.draw(hnp.arrays(np.bool_, starts.shape))
    envs = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True)))
    minibatch, sequences = rollout(starts, valid).take(envs)
    expected = [t * n + env for t in range(length) for env in envs if valid[t, env]]
    assert minibatch.log_probs.tolist() == expected
    ordered = sequences.obs[""][sequences.pieces.flatten()].flatten()[sequences.places]
    assert ordered.tolist() == expected
    assert sequences.states.flatten().tolist() == envs.tolist()


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 60))
def test_minibatches_are_whole_environments_and_each_comes_once(length: int, n: int, size: int) -> None:
    batch = rollout(np.zeros((length, n), dtype=np.bool_), np.ones((length, n), dtype=np.bool_))
    groups = batch.minibatches(np.random.default_rng(0).permutation(n), size)
    assert sorted(np.concatenate(groups).tolist()) == list(range(n))
    each = max(1, size // length)
    assert [len(group) for group in groups[:-1]] == [each] * (len(groups) - 1)


def test_environments_of_which_nothing_counts_make_no_minibatch() -> None:
    valid = np.array([[True, False, True], [True, False, False]])
    batch = rollout(np.zeros((2, 3), dtype=np.bool_), valid)
    assert [group.tolist() for group in batch.minibatches(np.arange(3), 2)] == [[0], [2]]
    assert batch.returns.tolist() == [0.0, 2.0, 3.0]
