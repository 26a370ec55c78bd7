"""Actions of the policy as the environment's: exact bounds, dtypes, shapes, and nothing outside the space."""

from __future__ import annotations

import copy
import json
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyrl.errors import UserError
from steadyrl.spaces import ActionSpec

F32 = np.finfo(np.float32)


def mapped(space: gs.Space[Any], actions: Any) -> npt.NDArray[Any]:
    """Each policy action as the environment's, each checked to be of the space with its dtype and shape."""
    result = ActionSpec.of(space).to_env(np.asarray(actions))
    assert result.dtype == space.dtype
    for action in result:
        assert space.contains(action), f"{action} is not in {space}"
        assert np.shape(action) == space.shape
    return result


def test_discrete_starts_where_the_space_does() -> None:  # case 1
    assert mapped(gs.Discrete(3, start=-1), [0, 1, 2]).tolist() == [-1, 0, 1]
    assert mapped(gs.Discrete(2), [1, 0]).tolist() == [1, 0]


def test_integer_actions_keep_their_shape() -> None:  # case 16
    assert mapped(gs.MultiDiscrete(np.array([[2], [2]])), [[0, 1], [1, 0]]).tolist() == [[[0], [1]], [[1], [0]]]
    assert mapped(gs.MultiDiscrete([2, 3], start=[5, -1]), [[1, 0]]).tolist() == [[6, -1]]
    bits = np.arange(64).reshape(1, 64) % 2
    assert mapped(gs.MultiBinary((8, 8)), bits).tolist() == bits.reshape(1, 8, 8).tolist()
    assert ActionSpec.of(gs.MultiBinary((8, 8))).nvec == (2,) * 64


def test_each_dimension_has_its_own_scale() -> None:  # case 3
    space = gs.Box(np.array([-1, 0], np.float32), np.array([1, 100], np.float32))
    found = mapped(space, np.array([[-1, -1], [0, 0], [1, 1], [0.5, 0.5], [-7, 7]], np.float32))
    assert found.tolist() == [[-1, 0], [0, 50], [1, 100], [0.5, 75], [-1, 100]]
    assert mapped(gs.Box(-2, 0, (1,)), np.array([[-1], [0], [1], [0.25]], np.float32)).ravel().tolist() == [
        -2,
        -1,
        0,
        -0.75,
    ]


def test_the_environment_gets_its_own_dtype() -> None:  # case 4
    for dtype in (np.float16, np.float32, np.float64):
        assert mapped(gs.Box(-2, 2, (2,), dtype), np.zeros((1, 2), np.float32)).dtype == dtype
    # 0.1 and 0.7 have other values in float32, so a map that goes through it misses the bounds.
    space = gs.Box(np.array([0.1]), np.array([0.7]), dtype=np.float64)
    assert mapped(space, np.array([[-1], [1]], np.float32)).ravel().tolist() == [0.1, 0.7]


@given(
    bounds=st.lists(st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)), min_size=1, max_size=4),
    dtype=st.sampled_from([np.float32, np.float64]),
    inside=st.lists(st.floats(-3, 3, width=32), min_size=4, max_size=4),
)
@settings(max_examples=300, deadline=None)
def test_bounds_are_met_exactly_and_never_crossed(
    bounds: list[tuple[float, float]], dtype: Any, inside: list[float]
) -> None:
    limit = np.finfo(dtype).max
    pairs = np.clip(np.array(bounds), -limit, limit).astype(dtype)
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    if (low == high).any():
        return
    space = gs.Box(low, high, dtype=dtype)
    n = len(bounds)
    rows = np.array([[-1.0] * n, [1.0] * n, inside[:n]], dtype=np.float32)
    found = mapped(space, rows)
    assert (found[0] == space.low).all()
    assert (found[1] == space.high).all()


def test_the_widest_box_does_not_overflow() -> None:
    limit = np.finfo(np.float64).max
    found = mapped(gs.Box(-limit, limit, (1,), np.float64), np.array([[-1], [0], [1]], np.float32))
    assert found.ravel().tolist() == [-limit, 0.0, limit]


def test_open_dimensions_pass_through_and_stop_at_a_finite_bound() -> None:
    space = gs.Box(np.array([-np.inf, -np.inf, 2.0, -1.0]), np.array([np.inf, 3.0, np.inf, 1.0]), dtype=np.float64)
    assert ActionSpec.of(space).bounded.tolist() == [False, False, False, True]
    found = mapped(space, np.array([[50, 50, 50, 50], [-50, -50, -50, -50], [0.5, 0.5, 4, 0.5]], np.float32))
    assert found.tolist() == [[50, 3, 50, 1], [-50, -50, 2, -1], [0.5, 0.5, 4, 0.5]]
    assert mapped(gs.Box(-np.inf, np.inf, (1,), np.float16), np.array([[1e6]], np.float32)).item() == 65504


def test_integer_boxes_get_the_nearest_integer() -> None:
    space = gs.Box(0, 255, (1,), np.uint8)
    assert mapped(space, np.array([[-1], [0.003], [1], [9]], np.float32)).ravel().tolist() == [0, 128, 255, 255]
    assert mapped(gs.Box(-3, 3, (1,), np.int32), np.array([[-0.9], [0.5]], np.float32)).ravel().tolist() == [-3, 2]
    assert mapped(gs.Box(0, 1, (1,), np.bool_), np.array([[-0.4], [0.4]], np.float32)).ravel().tolist() == [False, True]


def test_wide_integer_boxes_stay_inside() -> None:
    wide = np.array([[-1], [0], [1], [1e30], [-1e30]], np.float32)
    signed, unsigned = np.iinfo(np.int64), np.iinfo(np.uint64)
    bounded = mapped(gs.Box(signed.min, signed.max, (1,), np.int64), wide).ravel()
    assert bounded[0] == signed.min
    assert signed.max - 1024 < bounded[2] <= signed.max
    assert int(mapped(gs.Box(0, unsigned.max, (1,), np.uint64), wide)[2, 0]) > unsigned.max - 2048
    # Without bounds of its own an integer dimension is passed through like any other.
    assert mapped(gs.Box(-np.inf, np.inf, (1,), np.int64), wide[:3]).ravel().tolist() == [-1, 0, 1]
    assert mapped(gs.Box(-np.inf, np.inf, (1,), np.int8), wide[3:]).ravel().tolist() == [127, -128]


BOXES = st.sampled_from(
    [
        gs.Box(-1, 1, (2,), np.float16),
        gs.Box(np.array([0.1, -1e-40]), np.array([0.3, 1e-40]), dtype=np.float64),
        gs.Box(F32.min, F32.max, (2,)),
        gs.Box(-np.inf, np.inf, (2,)),
        gs.Box(np.array([-np.inf, 0.1]), np.array([0.1, np.inf]), dtype=np.float32),
        gs.Box(0, 255, (2,), np.uint8),
        gs.Box(np.array([-7, 3]), np.array([9, 4]), dtype=np.int64),
        gs.Box(np.iinfo(np.int64).min, np.iinfo(np.int64).max, (2,), np.int64),
    ]
)


@given(space=BOXES, rows=st.lists(st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=2), min_size=1))
@settings(max_examples=400, deadline=None)
def test_every_result_is_in_the_space(space: gs.Box, rows: list[list[float]]) -> None:
    mapped(space, np.array(rows, dtype=np.float32))


SPACES: dict[str, gs.Space[Any]] = {
    "discrete": gs.Discrete(3, start=-1),
    "multidiscrete": gs.MultiDiscrete(np.array([[2], [3]]), start=np.array([[1], [-1]])),
    "multibinary": gs.MultiBinary((2, 3)),
    "box": gs.Box(np.array([-1, 0.1]), np.array([1, 100.0]), dtype=np.float64),
    "box-open": gs.Box(np.array([-np.inf, 0]), np.array([1, np.inf]), dtype=np.float32),
    "box-scalar": gs.Box(-2, 0, ()),
    "box-deep": gs.Box(-2, 0, (2, 1, 2)),
}


@pytest.mark.parametrize("name", SPACES)
def test_the_space_is_untouched_and_json_brings_the_same_back(name: str) -> None:
    space = SPACES[name]
    before = copy.deepcopy(space)
    spec = ActionSpec.of(space)
    again = ActionSpec.from_json(json.loads(json.dumps(spec.to_json(), allow_nan=False)))
    assert again == spec
    stored = np.zeros((3, spec.size), dtype=spec.stored_dtype)
    result = again.to_env(stored)
    assert result.tolist() == mapped(space, stored).tolist()
    assert result.shape == (3, *(space.shape or ()))
    result[:] = 1
    assert space == before
    assert spec.stored_dtype is (np.float32 if name.startswith("box") else np.int64)


def test_vector_environments_accept_the_batch() -> None:
    space = gs.Box(-2, 0, (2,), np.float64)
    batch = gym.vector.utils.batch_space(space, 3)
    assert batch.contains(ActionSpec.of(space).to_env(np.zeros((3, 2), np.float32)))


VECTOR = gs.Box(-1, 1, (3,))
UNSUPPORTED: dict[str, tuple[gs.Space[Any], str]] = {
    "text": (gs.Text(5), "Text"),
    "graph": (gs.Graph(VECTOR, None), "Graph"),
    "text-in-tuple": (gs.Tuple((VECTOR, gs.Text(5))), "Text"),
    "graph-in-dict": (gs.Dict({"a": gs.Dict({"b": gs.Graph(VECTOR, None)})}), "Graph"),
    "flat-in-dict": (gs.Dict({"a": gs.Box(np.array([0, 5.0]), np.array([1, 5.0]), dtype=np.float64)}), "Box"),
    "empty-dict": (gs.Dict({}), "Dict"),
    "sequence": (gs.Sequence(VECTOR), "Sequence"),
    "one-of": (gs.OneOf((VECTOR, gs.Discrete(2))), "OneOf"),
    "empty": (gs.Box(-1, 1, (0,)), "Box"),
    "flat": (gs.Box(np.array([0, 5.0]), np.array([1, 5.0]), dtype=np.float64), "Box"),
    "long-double": (gs.Box(-1, 1, (2,), np.longdouble), "Box"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_an_unsupported_space_is_a_user_error(name: str) -> None:
    space, kind = UNSUPPORTED[name]
    with pytest.raises(UserError) as caught:
        ActionSpec.of(space)
    assert caught.value.code == "unsupported-action-space"
    assert f"is a {kind}" in caught.value.message
    assert caught.value.remedy


def test_a_dimension_without_room_is_named() -> None:
    with pytest.raises(UserError) as caught:
        ActionSpec.of(UNSUPPORTED["flat"][0])
    assert "dimension 1 (low 5, high 5)" in caught.value.remedy


CONTINUOUS = ActionSpec.of(gs.Box(-1, 1, (2,)))
INTEGER = ActionSpec.of(gs.MultiDiscrete([2, 3]))
BAD_FIELDS: list[tuple[ActionSpec, dict[str, Any]]] = [
    (CONTINUOUS, {"kind": "gaussian"}),
    (CONTINUOUS, {"kind": "discrete"}),
    (CONTINUOUS, {"shape": (0,)}),
    (CONTINUOUS, {"shape": (3,)}),
    (CONTINUOUS, {"dtype": "complex64"}),
    (CONTINUOUS, {"low": (-1.0, 1.0)}),
    (CONTINUOUS, {"low": (-1.0, float("nan"))}),
    (CONTINUOUS, {"low": (-1.0,)}),
    (CONTINUOUS, {"high": (True, 1.0)}),
    (CONTINUOUS, {"nvec": (2, 2)}),
    (INTEGER, {"kind": "multibinary"}),
    (INTEGER, {"kind": "discrete"}),
    (INTEGER, {"nvec": (2, 0)}),
    (INTEGER, {"nvec": (2, 10**30)}),
    (INTEGER, {"start": (0, -(2**70))}),
    (INTEGER, {"low": (0.0, 0.0)}),
    (INTEGER, {"dtype": "float32"}),
    (INTEGER, {"dtype": "int8", "start": (0, 126)}),
]


@pytest.mark.parametrize(("spec", "fields"), BAD_FIELDS, ids=str)
def test_a_spec_that_does_not_fit_together_cannot_be_made(spec: ActionSpec, fields: dict[str, Any]) -> None:
    whole = {name: getattr(spec, name) for name in ("kind", "shape", "dtype", "nvec", "start", "low", "high")}
    with pytest.raises(ValueError, match="no action space"):
        ActionSpec(**{**whole, **fields})
