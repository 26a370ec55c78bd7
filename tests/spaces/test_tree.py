"""Structures of spaces: to leaves and back, in every nesting."""

from __future__ import annotations

import copy
import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyrl.errors import UserError
from steadyrl.spaces import ActionSpec, ObsSpec, Tree
from steadyrl.spaces.tree import MisfitError
from support.trees import ACTIONS, LEAVES, PATHS, PLACES, drawn, equal, spaces

NESTED = gs.Dict({"b": gs.Tuple((gs.Discrete(2), gs.Dict({"x": gs.MultiBinary(2)}))), "a": gs.Box(-1, 1, (2,))})


def test_paths_are_keys_and_numbers() -> None:
    tree = Tree.of(NESTED)
    assert tree.node == {"a": "a", "b": ("b/0", {"x": "b/1/x"})}
    assert tree.paths == ["a", "b/0", "b/1/x"]
    assert Tree.of(gs.Discrete(2)).paths == [""]


def test_a_value_is_taken_apart_and_put_together() -> None:
    value = {"a": 1, "b": (2, {"x": 3}), "ignored": 4}
    flat = Tree.of(NESTED).flat(value)
    assert flat == {"a": 1, "b/0": 2, "b/1/x": 3}
    assert Tree.of(NESTED).built(flat) == {"a": 1, "b": (2, {"x": 3})}


@pytest.mark.parametrize(
    ("value", "path", "found"),
    [
        ([1], "", "a list of 1"),
        ({"a": 1}, "", "one with the keys ['a']"),
        ({"a": 1, "b": 7}, "b", "a int"),
        ({"a": 1, "b": (1, 2, 3)}, "b", "a tuple of 3"),
        ({"a": 1, "b": (1, {"y": 0})}, "b/1", "one with the keys ['y']"),
    ],
    ids=str,
)
def test_a_value_of_another_structure_is_named_with_its_place(value: Any, path: str, found: str) -> None:
    with pytest.raises(MisfitError) as caught:
        Tree.of(NESTED).flat(value)
    assert (caught.value.path, caught.value.found) == (path, found)
    with pytest.raises(UserError) as told:
        ObsSpec.of(NESTED).store(value, batch=False)
    assert told.value.code == "obs-keys"
    assert found in told.value.message
    assert (f"at '{path}'" in told.value.message) == bool(path)


def test_two_leaves_of_one_path_are_refused() -> None:
    twice = gs.Dict({"a/b": gs.Discrete(2), "a": gs.Dict({"b": gs.Discrete(3)})})
    with pytest.raises(UserError, match="'a/b'"):
        ObsSpec.of(twice)


def test_a_key_with_a_slash_is_a_key() -> None:
    spec = ObsSpec.of(gs.Dict({"arm/left": gs.Discrete(2)}))
    assert spec.store({"arm/left": 1}, batch=False)["arm/left"].tolist() == [[1]]
    assert isinstance(spec.to_json(), list)


@pytest.mark.parametrize(
    "data", [3, {"dict": []}, {"dict": {"a": "a"}}, {"tuple": "a"}, {"list": ["a"]}, {"dict": [["a"]]}]
)
def test_what_is_no_structure_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="no structure"):
        Tree.from_json(data)


def test_a_structure_without_end_is_refused() -> None:
    data: Any = "a"
    for _ in range(100):
        data = {"tuple": [data]}
    with pytest.raises(ValueError, match="no structure"):
        Tree.from_json(data)


@given(space=spaces(list(LEAVES.values())), seed=st.integers(0, 2**31 - 1))
@settings(max_examples=60, deadline=None)
def test_every_space_comes_to_leaves_and_back(space: gs.Space[Any], seed: int) -> None:
    before = copy.deepcopy(space)
    spec = ObsSpec.of(space)
    again = ObsSpec.from_json(json.loads(json.dumps(spec.to_json(), sort_keys=True, allow_nan=False)))
    assert (again.leaves, again.tree) == (spec.leaves, spec.tree)
    values = [drawn(space, seed + i) for i in range(3)]
    assert equal(spec.tree.built(spec.tree.flat(values[0])), values[0])
    single = [spec.store(value, batch=False) for value in values]
    batch = again.store(spec.tree.batch(values), batch=True)
    rooms = spec.zeros(3)
    for leaf in spec.leaves:
        stacked = np.concatenate([tree[leaf.path] for tree in single])
        assert np.array_equal(batch[leaf.path], stacked)
        assert (rooms[leaf.path].shape, rooms[leaf.path].dtype) == (stacked.shape, stacked.dtype)
    assert before == space


@given(space=spaces(list(LEAVES.values())), seed=st.integers(0, 2**31 - 1))
@settings(max_examples=30, deadline=None)
def test_gymnasium_batches_are_stored_like_ours(space: gs.Space[Any], seed: int) -> None:
    """Its vector environments put observations together by `concatenate`."""
    spec, values = ObsSpec.of(space), [drawn(space, seed + i) for i in range(2)]
    room: Any = gym.vector.utils.create_empty_array(space, 2)
    theirs = gym.vector.utils.concatenate(space, values, room)
    ours = spec.store(spec.tree.batch(values), batch=True)
    for path, leaf in spec.store(theirs, batch=True).items():
        assert np.array_equal(leaf, ours[path])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("leaf", LEAVES)
def test_one_is_told_from_a_batch(leaf: str, place: str) -> None:
    space = PLACES[place](LEAVES[leaf])
    spec = ObsSpec.of(space)
    assert PATHS[place] in spec.by_path
    values = [drawn(space, seed) for seed in range(4, 6)]
    assert spec.is_single(values[0])
    assert not spec.is_single(spec.tree.batch(values))


@given(space=spaces(list(ACTIONS.values())), seed=st.integers(0, 2**31 - 1))
@settings(max_examples=60, deadline=None)
def test_every_action_is_one_of_the_environment(space: gs.Space[Any], seed: int) -> None:
    before = copy.deepcopy(space)
    spec = ActionSpec.of(space)
    assert ActionSpec.from_json(json.loads(json.dumps(spec.to_json(), sort_keys=True, allow_nan=False))) == spec
    draw = np.random.default_rng(seed)
    parts = getattr(spec, "parts", (("", spec),))
    columns = [
        draw.normal(size=(5, part.size)) if part.kind == "continuous" else draw.integers(0, part.nvec, (5, part.size))
        for _, part in parts
    ]
    actions = np.concatenate(columns, axis=1)
    if len(parts) == 1 and not hasattr(spec, "parts"):
        actions = actions[:, 0] if spec.kind == "discrete" else actions
    found = spec.to_env(actions.astype(spec.stored_dtype))
    for row in range(5):
        action = spec.unpacked(found, row) if hasattr(spec, "unpacked") else found[row]
        assert space.contains(action), f"{action!r} is not in {space}"
    assert before == space
