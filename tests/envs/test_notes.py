"""Remarks on the first observations, each said once."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from steadyrl.envs.vector import Vec, make_vec
from support.envs import ConstantReward
from support.faulty_envs import Altered, Walk

FREE = spaces.Box(-np.inf, np.inf, (2,), np.float64)


def notes_of(env: Any, steps: int, num_envs: int = 1, vec: Vec = "auto") -> list[str]:
    """The remarks while these steps are taken and the environments closed."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        envs = make_vec(env) if isinstance(env, Altered) else make_vec(env, num_envs, vec=vec)
        envs.reset(list(range(envs.num_envs)))
        for _ in range(steps):
            envs.step(np.zeros(envs.num_envs, np.int64))
        envs.close()
    assert [str(w.message) for w in said] == envs.notes
    return envs.notes


@pytest.mark.parametrize("steps", [20, 150])
def test_time_stamps_that_float32_makes_equal_are_said_once(steps: int) -> None:
    (note,) = notes_of(lambda: Walk(FREE, lambda t: np.array([0.01 * t, 1.7e9 + t])), steps, 2)
    assert "observation of env" in note
    assert "in entry 1" in note
    assert "128 apart" in note


def test_large_integers_that_float32_makes_equal_are_said() -> None:
    space = spaces.Dict({"a": spaces.Box(0, 2**40, (), np.int64), "b": spaces.Box(-1.0, 1.0, (1,), np.float32)})
    (note,) = notes_of(lambda: Walk(space, lambda t: {"a": np.array(2**30 + t), "b": np.zeros(1, np.float32)}), 120)
    assert "observation at 'a'" in note
    assert "from 1073741824 to 1073741923" in note  # the reset and 99 steps


def test_what_the_bounds_tell_is_said_before_the_first_step() -> None:
    space = spaces.Box(1.7e9, 1.7e9 + 500, (1,), np.float64)
    with pytest.warns(UserWarning, match="128 apart"):
        envs = make_vec(lambda: Walk(space, lambda t: np.array([1.7e9 + t])))
    assert len(envs.notes) == 1
    envs.close()
    assert len(notes_of(lambda: Walk(space, lambda t: np.array([1.7e9 + t])), 150)) == 1


@pytest.mark.parametrize(
    ("space", "values"),
    [
        (FREE, lambda t: np.array([np.sin(t), 5000.0 + t])),
        (FREE, lambda t: np.array([3.0, 1.7e9])),
        (FREE, lambda t: np.array([0.5 + 1e-12 * (t % 3), 1.0])),
        (FREE, lambda t: np.array([1e6 * t, -1e12 * t])),
        (spaces.Box(0, 2**40, (1,), np.int64), lambda t: np.array([2**20 + t])),
        (spaces.Box(0, 255, (4, 4, 3), np.uint8), lambda t: np.full((4, 4, 3), t, np.uint8)),
        (spaces.MultiBinary(2), lambda t: np.array([t % 2, 1], np.int8)),
        (spaces.Discrete(500), lambda t: t),
        (spaces.Box(-1.0, 1.0, (1,), np.float32), lambda t: np.array([np.nextafter(np.float32(1), 2)], np.float32)),
    ],
)
def test_of_good_observations_nothing_is_said(space: Any, values: Any) -> None:
    assert notes_of(lambda: Walk(space, values), 150, 2) == []


def test_known_environments_give_no_cause() -> None:
    for env in ("CartPole-v1", "MountainCar-v0", "Acrobot-v1", "FrozenLake-v1", ConstantReward):
        assert notes_of(env, 300, 2) == []


def test_an_observation_beyond_its_bound_is_said_once_with_place_and_bound() -> None:
    space = spaces.Dict({"x": spaces.Box(-1.0, 2.0, (2,), np.float32), "y": spaces.Box(-1.0, 1.0, (), np.float32)})

    def values(t: int) -> Any:
        return {"x": np.array([0.0, min(t, 5)], np.float32), "y": np.array(0.5, np.float32)}

    (note,) = notes_of(lambda: Walk(space, values), 20)
    assert note.startswith("The observation at 'x' of env is 3.0 in entry [1], but its space goes from -1 to 2:")


@pytest.mark.parametrize(("value", "said"), [(-0.1, "is -0.1, but"), (7, "is 7.0, but"), (0.5, "")])
def test_a_single_number_and_the_lower_bound_count_too(value: float, said: str) -> None:
    notes = notes_of(lambda: Walk(spaces.Box(0.0, 1.0, (), np.float64), lambda t: np.array(float(value))), 3)
    assert [said in note for note in notes] == ([True] if said else [])


def test_integers_beyond_their_bound_are_said() -> None:
    (note,) = notes_of(lambda: Walk(spaces.Box(0, 9, (1,), np.int64), lambda t: np.array([t])), 20)
    assert "is 10 in entry [0], but its space goes from 0 to 9" in note


@pytest.mark.parametrize("vec", ["sync", "async"])
def test_floats_of_another_type_are_said_once(vec: Vec) -> None:
    class Doubles(ConstantReward):
        def _obs(self) -> Any:
            return super()._obs().astype(np.float64)

    (note,) = notes_of(Doubles, 30, 2, vec)
    assert "is float64, but its space says float32" in note


def test_lists_of_numbers_are_no_other_type() -> None:
    assert notes_of(lambda: Walk(spaces.Box(-1.0, 1.0, (1,), np.float32), lambda t: [0.25]), 5) == []


def test_a_vector_environment_of_another_type_is_said() -> None:
    def alter(parts: list[Any]) -> Any:
        return parts[0].astype(np.float32), *parts[1:]

    (note,) = notes_of(Altered(alter), 5)
    assert "is float32, but its space says float64" in note
