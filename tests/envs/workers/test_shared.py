"""The arrays of a step in shared memory: for which spaces, what is written where, and what is handed out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from steadyrl.envs.workers.board import Array, Board, anonymous_file, arrays_size
from steadyrl.envs.workers.shared import Layout, Shared, Stepping, actions_of, leaves_of, put
from steadyrl.errors import UserError

N = 3
OFFSET = Board.size(N, 1)
TREE = spaces.Dict({"eye": spaces.Box(0, 255, (2, 2), np.uint8), "where": spaces.Discrete(4)})
ORIGINS: Any = memoryview(bytearray(8 * N)).cast("q")


@pytest.fixture
def file() -> Iterator[int]:
    file = anonymous_file(OFFSET)
    yield file
    os.close(file)


def layout(observation: gym.Space[Any], action: gym.Space[Any] | None = None) -> Layout:
    return Layout.of(observation, action or spaces.Discrete(3), N, OFFSET)


@pytest.mark.parametrize(
    ("space", "leaves"),
    [
        (spaces.Box(-1, 1, (2, 3), np.float64), {"": Array((N, 2, 3), "<f8")}),
        (spaces.Discrete(5), {"": Array((N,), "<i8")}),
        (spaces.MultiDiscrete([2, 3]), {"": Array((N, 2), "<i8")}),
        (spaces.MultiBinary(4), {"": Array((N, 4), "|i1")}),
        (TREE, {"eye": Array((N, 2, 2), "|u1"), "where": Array((N,), "<i8")}),
        (spaces.Text(3), None),
        (spaces.Tuple((spaces.Discrete(2),)), {"0": Array((N,), "<i8")}),
        (spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Text(2)}), None),
    ],
)
def test_what_has_a_fixed_size_has_an_array(space: gym.Space[Any], leaves: dict[str, Array] | None) -> None:
    assert leaves_of(space, N) == leaves


@pytest.mark.parametrize(
    "action", [spaces.Text(3), spaces.Tuple((spaces.Text(2),)), spaces.Dict({"a": spaces.Text(2)})]
)
def test_actions_without_one_array_are_refused(action: gym.Space[Any]) -> None:
    with pytest.raises(UserError, match="cannot be sent to another process") as caught:
        layout(spaces.Discrete(2), action)
    assert (caught.value.code, caught.value.remedy) == ("env-spaces", "Use vec='sync'.")


def test_actions_of_parts_are_one_array_with_a_field_for_each_part() -> None:
    parts = spaces.Dict({"move": spaces.Discrete(3), "arm": spaces.Tuple((spaces.Box(-1.0, 1.0, (2,)),))})
    assert actions_of(parts, N) == Array((N,), [("arm/0", "<f4", (2,)), ("move", "<i8", ())])


def test_the_arrays_follow_each_other_in_the_order_of_a_step() -> None:
    found = layout(TREE)
    flags = Array((N,), "|b1")
    assert found.arrays == [Array((N,), "<i8"), Array((N,), "<f8"), flags, flags, *found.leaves.values()]  # type: ignore[union-attr]
    assert len(layout(spaces.Text(3)).arrays) == 4


def test_both_sides_see_the_same(file: int) -> None:
    found = layout(TREE)
    parent = Stepping(file, found)
    assert os.fstat(file).st_size == OFFSET + arrays_size(found.arrays)
    worker = Shared(file, found)
    parent.show(np.array([2, 0, 1]), ORIGINS, "X")
    assert worker.actions.tolist() == [2, 0, 1]
    worker.rewards[:], worker.terminated[:], worker.truncated[:] = [1.5, 2.5, 3.5], [1, 0, 0], [0, 0, 1]
    assert worker.leaves is not None
    put(
        worker.leaves, [{"eye": np.full((2, 2), 7), "where": 3}, {"eye": np.full((2, 2), 8), "where": 1}], 1, found.tree
    )
    rewards, terminated, truncated = parent.told()
    assert (rewards.tolist(), terminated.tolist(), truncated.tolist()) == (
        [1.5, 2.5, 3.5],
        [True, False, False],
        [False, False, True],
    )
    obs = parent.obs()
    assert list(obs) == ["eye", "where"]
    assert obs["eye"][:, 0, 0].tolist() == [0, 7, 8]
    assert obs["where"].tolist() == [0, 3, 1]
    worker.rewards[:] = 0
    worker.leaves["where"][:] = 0
    assert rewards.tolist() == [1.5, 2.5, 3.5]
    assert obs["where"].tolist() == [0, 3, 1]


def test_one_array_is_no_tree_and_fresh(file: int) -> None:
    parent = Stepping(file, layout(spaces.Discrete(5)))
    worker = Shared(file, parent.layout)
    assert worker.leaves is not None
    put(worker.leaves, [4, 2], 0, parent.layout.tree)
    obs = parent.obs()
    put(worker.leaves, [0, 0, 0], 0, parent.layout.tree)
    assert obs.tolist() == [4, 2, 0]


def test_what_is_sent_has_no_array(file: int) -> None:
    parent = Stepping(file, layout(spaces.Text(3)))
    assert parent.obs() is None
    assert Shared(file, parent.layout).leaves is None


def test_actions_of_another_shape_are_refused_and_not_kept(file: int) -> None:
    parent = Stepping(file, layout(spaces.Discrete(5)))
    with pytest.raises(UserError, match=r"The actions for X have shape \(2,\) instead of \(3,\)") as caught:
        parent.show(np.zeros(2, np.int64), ORIGINS, "X")
    assert caught.value.code == "vector-shape"
    assert parent.log.count == 0
    parent.show(np.array([1, 2, 3]), ORIGINS, "X")
    parent.show(np.array([4, 5, 6]), ORIGINS, "X")
    assert [int(action) for action in parent.log.of(1, 0, 2)[0]] == [2, 5]


def test_rows_of_environments_that_were_started_anew_are_made_up(file: int) -> None:
    parent = Stepping(file, layout(spaces.Discrete(5)))
    worker = Shared(file, parent.layout)
    worker.rewards[:], worker.terminated[:], worker.truncated[:] = 9.0, True, True
    parent.make_up(range(1, 3))
    rewards, terminated, truncated = parent.told()
    assert rewards.tolist() == [9.0, 0.0, 0.0]
    assert terminated.tolist() == truncated.tolist() == [True, False, False]
