"""Timing in turns, with clocks that tests set."""

from __future__ import annotations

import random
import time
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from steadyrl.envs import timing
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.timing import Timed, actions_for, cost_of, in_turns, undisturbed
from steadyrl.errors import SteadyRLError
from steadyrl.spaces.action_tree import tree_of_actions
from support.envs import ConstantReward, Ending, Scripted


class Clock:
    """A vector whose steps take a known time on a clock that nothing else moves."""

    now = 0.0

    def __init__(self, seconds: list[float], num_envs: int = 2, log: list[Any] | None = None) -> None:
        self.num_envs = num_envs
        self._seconds = seconds
        self._log = [] if log is None else log
        self.steps = 0

    def step(self, actions: Any) -> None:
        assert len(actions) == self.num_envs
        self._log.append(self)
        Clock.now += self._seconds[self.steps % len(self._seconds)]
        self.steps += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "perf_counter", lambda: Clock.now)


@pytest.mark.usefixtures("clock")
def test_a_turn_steps_for_its_time_and_once_at_least() -> None:
    timed = Timed(Clock([0.25], num_envs=4), spaces.Discrete(2))
    assert timed.turn(0.5) == 16.0
    assert timed.turn(0.0) == 16.0
    assert timed.rates == [16.0, 16.0]


@pytest.mark.usefixtures("clock")
def test_the_rate_is_the_median_of_the_turns() -> None:
    timed = Timed(Clock([0.5, 4.0, 1.0], num_envs=2), spaces.Discrete(2))
    for _ in range(3):
        timed.turn(0.0)
    assert (timed.rates, timed.rate) == ([4.0, 0.5, 2.0], 2.0)


@pytest.mark.usefixtures("clock")
def test_vectors_alternate_and_share_the_time() -> None:
    log: list[Any] = []
    one, other = (Clock([1.0], log=log) for _ in range(2))
    in_turns([Timed(each, spaces.Discrete(2)) for each in (one, other)], seconds=12.0, rounds=3)
    assert log == [one, one, other, other] * 3


def test_actions_are_the_same_each_time_and_of_the_space() -> None:
    space = spaces.Box(-1.0, 2.0, (3,), np.float32)
    first, again = (actions_for(space, 5) for _ in range(2))
    assert {batch.shape for batch in first} == {(5, 3)}
    assert all(space.contains(row) for batch in first for row in batch)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)


class Drawing(ConstantReward):
    """Draws from one of the process's own generators."""

    source = "numpy"

    def step(self, action: Any) -> Any:
        np.random.rand() if self.source == "numpy" else random.random()
        warnings.warn("a remark", stacklevel=1)
        return super().step(action)


@pytest.mark.parametrize(("source", "draws"), [("numpy", True), ("python", True), ("", False)])
def test_drawing_from_the_processs_generators_is_seen_and_undone(source: str, draws: bool) -> None:
    class Own(Drawing):
        pass

    Own.source = source
    np.random.seed(1)
    random.seed(1)
    before = np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cost = cost_of(make_env_factory(Own if source else (lambda: ConstantReward(5))))
    assert cost.draws is draws
    np.testing.assert_array_equal(np.random.get_state()[1], before[0])  # type: ignore[index]
    assert random.getstate() == before[1]


def test_undisturbed_brings_generators_back_after_an_error_too() -> None:
    np.random.seed(3)
    expected = np.random.rand()
    np.random.seed(3)
    with pytest.raises(ZeroDivisionError), undisturbed():
        divmod(int(np.random.rand()), 0)
    assert np.random.rand() == expected


def test_the_environment_is_closed_whether_it_works_or_fails() -> None:
    closed = []

    class Closing(Scripted):
        def __init__(self, fails: bool) -> None:
            super().__init__([Ending(3, True, False)])
            self.fails = fails

        def step(self, action: Any) -> Any:
            if self.fails:
                raise RuntimeError("no")
            return super().step(action)

        def close(self) -> None:
            closed.append(self.fails)

    cost_of(make_env_factory(Closing, env_kwargs={"fails": False}))
    with pytest.raises(SteadyRLError, match="no"):
        cost_of(make_env_factory(Closing, env_kwargs={"fails": True}))
    assert closed == [False, True]


class Waiting(ConstantReward):
    """Gives the CPU away in each step."""

    def step(self, action: Any) -> Any:
        time.sleep(2e-3)
        return super().step(action)


def test_waiting_is_told_from_working() -> None:
    assert cost_of(make_env_factory(lambda: Waiting(50))).busy < 0.8
    assert cost_of(make_env_factory("CartPole-v1")).busy == 1.0


def test_gymnasium_batches_have_the_shape_that_vectors_take() -> None:
    batches = actions_for(gym.spaces.MultiDiscrete([2, 3]), 4)
    assert batches[0].shape == (4, 2)


def test_actions_with_parts_are_sampled_as_policies_give_them() -> None:
    parts = gym.spaces.Dict({"a": gym.spaces.Discrete(2, start=-1), "b": gym.spaces.MultiDiscrete([2, 3])})
    for space in (parts, gym.spaces.Tuple((gym.spaces.Discrete(2), gym.spaces.Box(-1, 1, (3,))))):
        batches = actions_for(space, 4)
        assert {len(batch) for batch in batches} == {4}
        tree = tree_of_actions(space)
        assert all(space.contains(tree.unpacked(batch, row)) for batch in batches for row in range(4))
        assert len({batch.tobytes() for batch in batches}) > 1
