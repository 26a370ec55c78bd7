"""Observations as stored trees: every kind of leaf, its shapes, its refusals."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyrl.errors import UserError
from steadyrl.spaces import Leaf, ObsSpec
from support.policies import TREE, sample

# Space, stored shape, features, and one observation with its stored form.
LEAVES: dict[str, tuple[gs.Space[Any], tuple[int, ...], int, Any, Any]] = {
    "box": (gs.Box(-1, 1, (2, 2)), (2, 2), 4, [[0.5, -1], [1, 0]], [[0.5, -1], [1, 0]]),
    "box-scalar": (gs.Box(-1, 1, ()), (), 1, 0.25, 0.25),
    "box-float64": (gs.Box(-1, 1, (1,), np.float64), (1,), 1, np.array([0.1]), [np.float32(0.1)]),
    "box-int": (gs.Box(-5, 5, (2,), np.int16), (2,), 2, np.array([-5, 5], np.int16), [-5.0, 5.0]),
    "image": (gs.Box(0, 255, (1, 2), np.uint8), (1, 2), 2, np.array([[0, 255]], np.uint8), [[0.0, 255.0]]),
    "discrete": (gs.Discrete(5), (1,), 5, 4, [4]),
    "discrete-start": (gs.Discrete(3, start=-1), (1,), 3, np.int64(-1), [0]),
    "multidiscrete": (gs.MultiDiscrete(np.array([[2], [4]])), (2,), 6, [[1], [3]], [1, 3]),
    "multidiscrete-start": (gs.MultiDiscrete([2, 4], start=[10, -2]), (2,), 6, [11, -2], [1, 0]),
    "multibinary": (gs.MultiBinary((8, 8)), (8, 8), 64, np.eye(8, dtype=np.int8), np.eye(8)),
    "multibinary-flat": (gs.MultiBinary(3), (3,), 3, [1, 0, 1], [1.0, 0.0, 1.0]),
}


@pytest.mark.parametrize("name", LEAVES)
def test_each_leaf_is_stored_in_its_own_form(name: str) -> None:
    space, shape, features, obs, stored = LEAVES[name]
    spec = ObsSpec.of(space)
    leaf = spec.leaves[0]
    integer = name.startswith(("discrete", "multidiscrete"))
    assert (spec.is_tree, leaf.path, leaf.stored_shape, leaf.features) == (False, "", shape, features)
    found = spec.store(obs, batch=False)[""]
    assert found.dtype == (np.int64 if integer else np.uint8 if name == "image" else np.float32)
    assert found.shape == (1, *shape)
    assert found[0].tolist() == np.asarray(stored, dtype=found.dtype).tolist()
    many = spec.store(np.array([obs, obs, obs]), batch=True)[""]
    assert many.shape == (3, *shape)
    assert (many == found).all()
    assert (spec.is_single(obs), spec.is_single(np.array([obs]))) == (True, False)
    assert spec.zeros(4, 2)[""].shape == (4, 2, *shape)
    assert spec.zeros(4, 2)[""].dtype == found.dtype


@pytest.mark.parametrize("name", LEAVES)
def test_samples_of_the_space_are_stored_in_range(name: str) -> None:
    space, *_ = LEAVES[name]
    spec = ObsSpec.of(space)
    stored = spec.store(sample(space, 50), batch=True)[""]
    if spec.leaves[0].nvec:
        assert (stored >= 0).all()
        assert (stored < np.array(spec.leaves[0].nvec)).all()
        assert (stored.max(axis=0) == np.array(spec.leaves[0].nvec) - 1).all()


def test_only_images_are_scaled() -> None:
    scales = {name: ObsSpec.of(LEAVES[name][0]).leaves[0].scale for name in LEAVES}
    assert scales == {name: 1 / 255 if name == "image" else 1.0 for name in LEAVES}
    assert ObsSpec.of(gs.Box(0, 255, (4,), np.uint8)).leaves[0].scale == 1.0


def test_what_is_stored_is_a_copy() -> None:
    obs = np.ones((2, 3), dtype=np.float32)
    stored = ObsSpec.of(gs.Box(-1, 1, (3,))).store(obs, batch=True)[""]
    obs[:] = 7
    assert (stored == 1).all()
    rooms = np.array([1, 2])
    counted = ObsSpec.of(gs.Discrete(3)).store(rooms, batch=True)[""]
    rooms[:] = 0
    assert counted.ravel().tolist() == [1, 2]


def test_a_dictionary_keeps_its_order_and_ignores_further_keys() -> None:
    space = gs.Dict({"z": gs.Discrete(2), "a": gs.Box(-1, 1, (2,))})
    spec = ObsSpec.of(space)
    assert [leaf.path for leaf in spec.leaves] == list(space.spaces)
    stored = spec.store({"a": [0.5, 1], "z": 1, "debug": object()}, batch=False)
    assert {path: array.tolist() for path, array in stored.items()} == {"a": [[0.5, 1.0]], "z": [[1]]}
    assert spec.is_single({"a": [0, 0], "z": 0})
    assert not spec.is_single({"a": [[0, 0]], "z": [0]})


def test_the_space_is_not_touched() -> None:
    before = copy.deepcopy(TREE)
    spec = ObsSpec.of(TREE)
    spec.store(sample(TREE, 3), batch=True)["image"] //= 255
    spec.zeros(2)["image"][:] = 9
    assert before == TREE
    image = TREE["image"]
    assert isinstance(image, gs.Box)
    assert image.dtype == np.uint8
    assert (image.low == 0).all()
    assert (image.high == 255).all()


@pytest.mark.parametrize("space", [*(row[0] for row in LEAVES.values()), TREE], ids=[*LEAVES, "tree"])
def test_json_round_trip(space: gs.Space[Any]) -> None:
    spec = ObsSpec.of(space)
    again = ObsSpec.from_json(json.loads(json.dumps(spec.to_json(), allow_nan=False)))
    assert again.leaves == spec.leaves
    assert again.is_tree == spec.is_tree


VECTOR = gs.Box(-1, 1, (3,))
UNSUPPORTED: dict[str, tuple[gs.Space[Any], str, str]] = {
    "graph": (gs.Graph(VECTOR, None), "", "Graph"),
    "one-of": (gs.OneOf((VECTOR, gs.Discrete(2))), "", "OneOf"),
    "graph-in-tuple": (gs.Dict({"ok": VECTOR, "map": gs.Tuple((VECTOR, gs.Graph(VECTOR, None)))}), "map/1", "Graph"),
    "one-of-in-dict": (gs.Tuple((gs.Dict({"x": gs.OneOf((VECTOR, gs.Discrete(2)))}),)), "0/x", "OneOf"),
    "sequence-of-dicts": (gs.Dict({"all": gs.Sequence(gs.Dict({"x": VECTOR}))}), "all", "Sequence"),
    "empty-dict": (gs.Dict({}), "", "Dict"),
    "empty-tuple": (gs.Dict({"ok": VECTOR, "none": gs.Tuple(())}), "none", "Tuple"),
    "empty-inner-dict": (gs.Tuple((gs.Dict({}),)), "0", "Dict"),
    "nameless": (gs.Dict({"": VECTOR}), "", "Dict"),
    "numbered": (gs.Dict({"ok": VECTOR, 3: VECTOR}), "", "Dict"),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_an_unsupported_space_is_named_with_its_leaf(name: str) -> None:
    space, leaf, kind = UNSUPPORTED[name]
    with pytest.raises(UserError) as caught:
        ObsSpec.of(space)
    assert caught.value.code == "unsupported-observation-space"
    assert f"is a {kind}" in caught.value.message
    assert (f"at '{leaf}'" in caught.value.message) == bool(leaf)
    assert caught.value.remedy


WRONG: dict[str, tuple[gs.Space[Any], Any, str, str]] = {
    "short": (VECTOR, [1, 2], "(2,)", "obs-shape"),
    "deep": (VECTOR, np.zeros((1, 1, 3)), "(1, 1, 3)", "obs-shape"),
    "scalar": (VECTOR, 1.0, "()", "obs-shape"),
    "word": (VECTOR, "abc", "str", "obs-type"),
    "none": (VECTOR, None, "NoneType", "obs-type"),
    "ragged": (VECTOR, [[1, 2, 3], [1]], "list", "obs-type"),
    "tree-for-box": (VECTOR, {"a": [1, 2, 3]}, "dict", "obs-type"),
    "box-for-tree": (TREE, np.zeros(3), "ndarray", "obs-keys"),
    "missing-key": (TREE, {"position": [0, 0]}, "['position']", "obs-keys"),
    "room-too-high": (gs.Discrete(3, start=-1), 2, "holds 2", "obs-range"),
    "room-too-low": (gs.Discrete(3, start=-1), -2, "holds -2", "obs-range"),
    "between-rooms": (gs.Discrete(3), 0.5, "holds 0.5", "obs-range"),
    "no-room": (gs.Discrete(3), np.nan, "holds nan", "obs-range"),
    "wheel": (gs.MultiDiscrete([2, 3]), [1, 3], "holds 3", "obs-range"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_observation_is_a_user_error(name: str) -> None:
    space, obs, found, code = WRONG[name]
    spec = ObsSpec.of(space)
    with pytest.raises(UserError) as caught:
        spec.store(obs, batch=not spec.is_single(obs))
    assert caught.value.code == code
    assert found in caught.value.message
    assert caught.value.remedy


def test_parts_of_unequal_number_are_refused() -> None:
    spec = ObsSpec.of(gs.Dict({"a": VECTOR, "b": gs.Discrete(2)}))
    with pytest.raises(UserError, match="'a': 2, 'b': 3"):
        spec.store({"a": np.zeros((2, 3)), "b": np.zeros(3, dtype=int)}, batch=True)


GOOD = Leaf("p", "multidiscrete", (2,), "int64", (2, 3), (0, 0))
BAD_FIELDS: list[dict[str, Any]] = [
    {"path": 3},
    {"kind": "tuple"},
    {"kind": "discrete"},
    {"kind": "box"},
    {"shape": (3,)},
    {"shape": (2.0,)},
    {"shape": (-2,)},
    {"dtype": "object"},
    {"dtype": "float32"},
    {"nvec": (2, 0)},
    {"nvec": (2,)},
    {"nvec": (True, 3)},
    {"start": (0, 0.5)},
    {"start": (0, 2**63 - 2)},
    {"start": ()},
    {"scale": 0.0},
    {"scale": float("nan")},
    {"scale": 1},
]


@pytest.mark.parametrize("fields", BAD_FIELDS, ids=str)
def test_a_leaf_that_does_not_fit_together_cannot_be_made(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no part of an observation space"):
        Leaf(**{**GOOD.__dict__, **fields})


def test_leaves_must_have_paths_of_their_own() -> None:
    for leaves in ((), (GOOD, GOOD), (GOOD, Leaf("", "box", (1,), "float32"))):
        with pytest.raises(ValueError, match="make no observation space"):
            ObsSpec(leaves)


def test_a_size_beyond_64_bits_is_exact() -> None:
    assert Leaf("", "box", (2**40, 2**40), "float32").size == 2**80


def test_an_odd_dtype_is_a_user_error() -> None:
    with pytest.raises(UserError, match="Box"):
        ObsSpec.of(gs.Box(-1, 1, (2,), np.longdouble))


@given(
    nvec=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    start=st.integers(-(2**40), 2**40),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=50, deadline=None)
def test_integers_are_counted_from_zero(nvec: list[int], start: int, seed: int) -> None:
    space = gs.MultiDiscrete(nvec, start=[start] * len(nvec))
    space.seed(seed)
    obs = space.sample()
    stored = ObsSpec.of(space).store(obs, batch=False)[""][0]
    assert (stored + start == obs).all()
    assert ((stored >= 0) & (stored < np.array(nvec))).all()
