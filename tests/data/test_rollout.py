"""Rollout storage: what goes in comes out, flat in the order of time, without the rows that do not count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gs

from steadyrl.data.rollout import Fetcher, Rollout, RolloutBatch
from steadyrl.data.targets import gae, next_values
from steadyrl.spaces import ActionSpec, ObsSpec
from support.kernels import needs_native

OBS = gs.Dict({"x": gs.Box(-1e6, 1e6, (2,)), "room": gs.Discrete(100)})
ACTION = gs.Box(-1, 1, (2,))
T, N = 4, 3


def rollout(n_steps: int = T, action: gs.Space[Any] = ACTION) -> Rollout:
    return Rollout(n_steps, N, ObsSpec.of(OBS), ActionSpec.of(action))


def add(target: Rollout, t: int, valid: list[bool] | None = None, truncated: list[bool] | None = None) -> None:
    """One vector step in which everything tells t and the environment's number: 10 t + n."""
    code = 10.0 * t + np.arange(N, dtype=np.float32)
    as_tensor = torch.from_numpy(code.copy())
    arrays = {"x": np.stack([code, -code], axis=1), "room": code[:, None].astype(np.int64)}
    actions = torch.stack([as_tensor + 0.25, as_tensor + 0.5], dim=1)
    log_probs, values, rewards = as_tensor + 100, as_tensor + 200, code + 300
    terminated = np.zeros(N, dtype=bool)
    cut = np.array(truncated or [False] * N)
    counts = np.array(valid or [True] * N)
    target.add(arrays, actions, log_probs, values, rewards, terminated, cut, counts)
    # The caller may use its arrays for something else afterwards.
    for array in (*arrays.values(), rewards, terminated, cut, counts):
        array[:] = 1
    for tensor in (actions, log_probs, values):
        tensor.fill_(-1)


def codes(batch: RolloutBatch) -> list[int]:
    """10 t + n of each transition, after a check that all its parts belong together."""
    code = batch.log_probs - 100
    assert torch.equal(batch.obs["x"], torch.stack([code, -code], dim=1))
    assert torch.equal(batch.obs["room"], code.long()[:, None])
    assert torch.equal(batch.actions, torch.stack([code + 0.25, code + 0.5], dim=1))
    assert torch.equal(batch.values, code + 200)
    assert torch.equal(batch.returns, batch.advantages + batch.values)
    return [int(x) for x in code]


def test_a_full_rollout_comes_out_in_the_order_of_time() -> None:
    target = rollout()
    for t in range(T):
        assert not target.full
        add(target, t)
    assert target.full
    batch = target.batch(torch.zeros(N), 0.9, 0.8)
    assert codes(batch) == [10 * t + n for t in range(T) for n in range(N)]
    values = target.values
    none = torch.zeros(T, N, dtype=torch.bool)
    successors = next_values(values, torch.zeros(N), torch.zeros(T, N), none)
    advantages, _ = gae(target.rewards, values, successors, none, none, ~none, 0.9, 0.8)
    assert torch.equal(batch.advantages, advantages.flatten())


def test_rows_that_do_not_count_are_dropped() -> None:
    target = rollout()
    add(target, 0, truncated=[False, True, False])
    add(target, 1, valid=[True, False, True])
    add(target, 2, valid=[True, True, False])
    batch = target.batch(torch.zeros(N), 0.9, 0.8)
    assert codes(batch) == [0, 1, 2, 10, 12, 20, 21]
    target.clear()
    add(target, 5, valid=[False, False, False])
    assert codes(target.batch(torch.zeros(N), 0.9, 0.8)) == []


def test_a_partial_rollout_uses_only_what_is_in() -> None:
    target = rollout()
    for t in range(T):
        add(target, t + 50, truncated=[True, True, True])
    target.clear()
    assert target.length == 0
    add(target, 7)
    add(target, 8)
    assert target.length == 2
    batch = target.batch(torch.full((N,), 1000.0), 1.0, 0.0)
    assert codes(batch) == [70, 71, 72, 80, 81, 82]
    # TD errors: reward - value = 100 plus the successor's value.
    assert batch.advantages.tolist() == [100 + 280, 100 + 281, 100 + 282, 1100, 1100, 1100]


def test_final_values_belong_to_the_newest_step_and_to_their_rows() -> None:
    target = rollout()
    add(target, 0)
    add(target, 1, truncated=[True, False, True])
    target.set_final_values(np.array([True, False, True]), torch.tensor([5.0, 6.0]))
    assert target.final_values[:2].tolist() == [[0, 0, 0], [5, 0, 6]]
    batch = target.batch(torch.full((N,), 1000.0), 1.0, 0.0)
    assert batch.advantages.tolist() == [310, 311, 312, 105, 1100, 106]


def test_the_state_brings_everything_back() -> None:
    target = rollout()
    add(target, 0, truncated=[False, True, False])
    target.set_final_values(np.array([False, True, False]), torch.tensor([9.0]))
    add(target, 1, valid=[True, False, True])
    state = target.state_dict()
    other = rollout()
    add(other, 3)
    other.load_state_dict(state)
    for each in (target, other):
        add(each, 2)
    expected, found = (each.batch(torch.ones(N), 0.9, 0.95) for each in (target, other))
    assert codes(found) == codes(expected) == [0, 1, 2, 10, 12, 20, 21, 22]
    assert torch.equal(found.advantages, expected.advantages)
    assert all(len(tensor) == 2 for tensor in state.values())
    target.clear()
    add(target, 7)
    assert state["rewards"].tolist() == [[300, 301, 302], [310, 311, 312]]  # a copy, which later steps do not reach


def test_an_empty_state() -> None:
    target = rollout()
    other = rollout()
    add(other, 1)
    other.load_state_dict(target.state_dict())
    assert other.length == 0


@pytest.mark.parametrize(
    ("space", "shape", "dtype"),
    [
        (gs.Discrete(3), (T, N), torch.int64),
        (gs.MultiDiscrete([2, 3]), (T, N, 2), torch.int64),
        (gs.MultiBinary((2, 2)), (T, N, 4), torch.int64),
        (gs.Box(-1, 1, (2, 2), np.float64), (T, N, 4), torch.float32),
    ],
)
def test_actions_have_room_in_their_stored_form(
    space: gs.Space[Any], shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    actions = rollout(action=space).actions
    assert (tuple(actions.shape), actions.dtype) == (shape, dtype)


def test_taking_rows_of_a_batch() -> None:
    target = rollout()
    for t in range(T):
        add(target, t)
    batch = target.batch(torch.zeros(N), 0.9, 0.8)
    index = torch.tensor([7, 0, 7])
    taken = batch.take(index)
    assert codes(taken) == [21, 0, 21]
    assert torch.equal(taken.advantages, batch.advantages[index])
    moved = batch.to(torch.device("cpu"))
    assert codes(moved) == codes(batch)


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=needs_native)])
def test_minibatches_are_fetched_whole(native: bool) -> None:
    target = rollout()
    for t in range(T):
        add(target, t)
    whole = target.batch(torch.zeros(N), 0.9, 0.8)
    fetch = Fetcher(whole, native=native)
    order = np.array([11, 3, 3, 0, 7, 5, 1], dtype=np.int64)
    known = [10 * (i // N) + i % N for i in order]
    for part in (slice(0, 3), slice(3, 6), slice(6, 7), slice(0, 0), slice(0, 3)):
        batch = fetch(order[part])
        assert codes(batch) == known[part]
        assert torch.equal(batch.advantages, whole.advantages[torch.from_numpy(order[part])])
    with pytest.raises(IndexError):
        fetch(np.array([N * T], dtype=np.int64))
    assert codes(whole) == [10 * t + n for t in range(T) for n in range(N)]


def test_pixels_of_before_they_were_kept_as_bytes_are_taken_up() -> None:
    images = Rollout(T, N, ObsSpec.of(gs.Box(0, 255, (2, 2), np.uint8)), ActionSpec.of(gs.Discrete(2)))
    images.obs[""][1] = 255
    images.length = 2
    state = images.state_dict()
    assert state["obs/"].dtype == torch.uint8
    again = Rollout(T, N, ObsSpec.of(gs.Box(0, 255, (2, 2), np.uint8)), ActionSpec.of(gs.Discrete(2)))
    again.load_state_dict({**state, "obs/": state["obs/"].float()})
    assert again.obs[""].dtype == torch.uint8
    assert torch.equal(again.obs[""], images.obs[""])
