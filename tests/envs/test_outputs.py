"""What a vector environment declares and returns wrongly, each said with its cure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from steadyrl.envs.outputs import flags_of, rewards_of
from steadyrl.envs.vector import make_vec
from steadyrl.errors import SteadyRLError, UserError
from support.envs import Ending, ScriptedVector
from support.faulty_envs import Altered

ZEROS = np.zeros(2, np.int64)
OK = np.array([False, True])


def _with(place: int, value: Any) -> Callable[[list[Any]], Any]:
    return lambda parts: tuple(value if i == place else part for i, part in enumerate(parts))


def _refusal(vector: Any) -> SteadyRLError:
    envs = make_vec(vector)
    with pytest.raises(SteadyRLError) as caught:
        (envs.reset([0, 1]), envs.step(ZEROS))
    assert caught.value.message
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize(
    ("alter", "code", "text"),
    [
        (_with(1, ["a", "b"]), "reward-type", "`rewards` of the vector environment Altered"),
        (_with(1, [1, [2, 3]]), "reward-type", "`rewards`"),
        (_with(1, np.array([1j, 2])), "reward-type", "complex"),
        (_with(1, None), "reward-type", "None"),
        (_with(1, [1, 10**400]), "reward-type", "`rewards`"),
        (_with(1, [1, 10**5000]), "reward-type", "cannot be shown"),
        (_with(1, np.ones(3)), "vector-shape", r"shape (3,) instead of (2,)"),
        (_with(1, 1.0), "vector-shape", "shape ()"),
        (_with(1, np.ones((2, 2))), "vector-shape", "shape (2, 2)"),
        (_with(2, ["False", "False"]), "flag-type", "`terminated`"),
        (_with(2, np.array([np.nan, 0])), "flag-type", "`terminated`"),
        (_with(2, [0, 1]), "flag-type", "`terminated` of the vector environment Altered is [0, 1]"),
        (_with(3, [None, None]), "flag-type", "`truncated`"),
        (_with(3, [False]), "vector-shape", "`truncated`"),
        (_with(3, False), "vector-shape", "`truncated`"),
        (_with(0, np.zeros((1, 4))), "vector-shape", "are 1, not 2"),
        (_with(0, np.zeros((3, 4))), "vector-shape", "are 3, not 2"),
        (_with(0, np.zeros(4)), "obs-shape", "shape ()"),
        (_with(0, np.array(3.0)), "obs-shape", "no batch"),
        (_with(0, None), "obs-type", "NoneType"),
        (_with(0, [["a"] * 4] * 2), "obs-type", "not an array of numbers"),
        (_with(4, None), "old-gym", "None (NoneType) as infos"),
        (_with(4, [{}, {}]), "old-gym", "as infos"),
        (lambda parts: tuple(parts[:4]), "old-gym", "step() of the vector environment Altered returned 4 values"),
        (list, "old-gym", "(list)"),
    ],
)
def test_what_step_returns_wrongly_is_said(alter: Callable[[list[Any]], Any], code: str, text: str) -> None:
    error = _refusal(Altered(alter))
    assert isinstance(error, UserError)
    assert error.code == code
    assert text in error.message


@pytest.mark.parametrize("result", [None, np.zeros((2, 4)), (np.zeros((2, 4)), None), (np.zeros((2, 4)), {}, {})])
def test_what_reset_returns_wrongly_is_said(result: Any) -> None:
    vector = Altered(tuple)
    vector.reset = lambda **_: result  # type: ignore[method-assign]
    error = _refusal(vector)
    assert error.code == "old-gym"
    assert "reset() of the vector environment Altered returned" in error.message
    assert "obs, infos" in error.remedy


def _set(key: str, value: Any) -> Callable[[Any], None]:
    return lambda vector: setattr(vector, key, value)


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda vector: delattr(vector, "num_envs"), "num_envs of the vector environment Altered is None"),
        (_set("num_envs", 0), "num_envs"),
        (_set("num_envs", True), "num_envs"),
        (_set("num_envs", "2"), "'2' (str)"),
        (_set("num_envs", 2.0), "num_envs"),
        (lambda vector: delattr(vector, "single_observation_space"), "single_observation_space"),
        (_set("single_action_space", 2), "single_action_space of the vector environment Altered is 2 (int)"),
        (_set("metadata", "NEXT_STEP"), "metadata"),
        (_set("metadata", ["autoreset_mode"]), "metadata"),
        (_set("metadata", {"autoreset_mode": np.array([1, 2])}), "an array of shape (2,)"),
        (_set("metadata", {"autoreset_mode": 0}), "0 (int)"),
    ],
)
def test_what_is_declared_wrongly_is_said(spoil: Callable[[Any], None], text: str) -> None:
    vector = Altered(tuple)
    spoil(vector)
    with pytest.raises(UserError) as caught:
        make_vec(vector)
    assert text in caught.value.message
    assert caught.value.remedy


def test_a_wrong_number_of_environments_is_found_at_the_reset() -> None:
    vector = ScriptedVector([[Ending(1, True, False)]] * 2, AutoresetMode.NEXT_STEP)
    vector.reset = lambda **_: (np.zeros((2, 4)), {})  # type: ignore[method-assign]
    vector.num_envs = 3
    with pytest.raises(UserError, match="are 2, not 3"):
        make_vec(vector).reset([0, 1, 2])


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([1, 2], [1.0, 2.0]),
        (np.array([1, 2], np.float32), [1.0, 2.0]),
        ((True, False), [1.0, 0.0]),
        ([[3], [4]], [3.0, 4.0]),
    ],
)
def test_rewards_in_any_form_become_floats(told: Any, expected: list[float]) -> None:
    rewards = rewards_of(told, 2, "it")
    assert (rewards.tolist(), rewards.dtype.name) == (expected, "float64")


def test_what_is_returned_is_fresh() -> None:
    told = np.ones(2)
    assert not np.shares_memory(rewards_of(told, 2, "it"), told)
    for flags in (OK, OK[:, None], OK.tolist()):
        taken = flags_of(flags, "terminated", 2, "it")
        assert taken.tolist() == [False, True]
        assert not np.shares_memory(taken, OK)


FINAL: list[Any] = [
    5,
    "ab",
    [np.zeros(4)],
    [np.zeros(4), "x"],
    [np.zeros(4), np.zeros(3)],
    np.zeros((1, 4)),
    np.zeros(()),
    {"a": np.zeros((2, 4))},
    {"a": 3},
    [np.zeros(4), object()],
    np.zeros((2, 3)),
]


@pytest.mark.parametrize("final", FINAL, ids=range(len(FINAL)))
@pytest.mark.parametrize("tree", [False, True])
def test_final_observations_that_cannot_be_read_are_said(final: Any, tree: bool) -> None:
    def alter(parts: list[Any]) -> Any:
        obs = {"b": parts[0]} if tree else parts[0]
        return obs, *parts[1:4], {"final_obs": final}

    vector = Altered(alter, AutoresetMode.SAME_STEP, ends=True)
    if tree:
        plain = vector.reset
        vector.single_observation_space = gym.spaces.Dict({"b": vector.single_observation_space})
        vector.reset = lambda **kwargs: ({"b": plain(**kwargs)[0]}, {})  # type: ignore[method-assign]
    assert isinstance(_refusal(vector), UserError)


@pytest.mark.parametrize(
    "layer",
    [
        {"is_success": [True]},
        {"is_success": True},
        {"is_success": ["yes", "no"]},
        {"is_success": np.array([np.nan, 1.0])},
        {"is_success": [True, False], "_is_success": [True]},
        {"is_success": [True, False], "_is_success": "both"},
        {"is_success": [True, False], "_is_success": ["a", "b"]},
    ],
)
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_successes_that_cannot_be_read_are_said(layer: dict[str, Any], mode: AutoresetMode) -> None:
    def alter(parts: list[Any]) -> Any:
        infos = {**parts[4], "final_info": layer} if mode is AutoresetMode.SAME_STEP else layer
        return *parts[:4], infos

    assert _refusal(Altered(alter, mode, ends=True)).code == "info-type"


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ({"is_success": None}, [None, None]),
        ({"is_success": [None, 1]}, [None, True]),
        ({"is_success": np.array([0.0, 1.0]), "_is_success": [True, False]}, [False, None]),
        ({"is_success": [False, True], "_is_success": None}, [False, True]),
    ],
)
def test_successes_that_can_be_read_are(layer: dict[str, Any], expected: list[bool | None]) -> None:
    envs = make_vec(Altered(lambda parts: (*parts[:4], layer), AutoresetMode.NEXT_STEP, ends=True))
    envs.reset([0, 1])
    assert [e.success for e in envs.step(ZEROS).episodes] == expected
