"""Environments that insist on their masks are timed with what these allow."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from steadyrl.bench.rows import Cell
from steadyrl.bench.split import MaskedBare, beside
from steadyrl.bench.sweep import open_cell
from steadyrl.envs import timing
from steadyrl.envs.allowed import Chooser, GymnasiumsMasks
from steadyrl.envs.choice import choose
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.timing import Timed, cost_of
from support.envs import ConstantReward
from support.masked import Masked

FORMS: list[dict[str, Any]] = [
    {},
    {"method": True},
    {"terminates": True},
    {"nvec": (2, 3, 4)},
    {"start": -2},
    {"form": np.float32},
]


def test_every_allowed_action_comes_up_equally_often_and_no_other() -> None:
    chooser = Chooser(spaces.MultiDiscrete([3, 2], start=[5, -1]))
    mask = np.array([[True, False, True, False, True]])
    drawn = np.concatenate([chooser(mask) for _ in range(2000)])
    found, counts = np.unique(drawn, axis=0, return_counts=True)
    np.testing.assert_array_equal(found, [[5, 0], [7, 0]])
    assert counts.min() > 900
    assert drawn.dtype == np.int64
    one = Chooser(spaces.Discrete(3, start=4))(np.array([[False, True, False], [False, False, True]]))
    np.testing.assert_array_equal(one, [5, 6])


@pytest.mark.parametrize("options", FORMS, ids=str)
def test_a_single_environment_is_timed_with_what_it_allows(options: dict[str, Any]) -> None:
    """The environment raises for anything else."""
    assert 0.0 < cost_of(make_env_factory(partial(Masked, **options))).step_s < 1.0


def test_masks_of_actions_that_have_none_are_no_hindrance() -> None:
    class Told(ConstantReward):
        def __init__(self) -> None:
            super().__init__(5)
            self.action_space = spaces.Box(-1.0, 1.0, (2,))  # type: ignore[assignment]

        def reset(self, **arguments: Any) -> Any:
            return super().reset(**arguments)[0], {"action_mask": np.array([0, 1])}

    assert cost_of(make_env_factory(Told)).step_s > 0.0


@pytest.mark.parametrize("vec", ["sync", "async"])
@pytest.mark.parametrize("options", FORMS, ids=str)
def test_a_vector_is_timed_with_what_it_allows(options: dict[str, Any], vec: str) -> None:
    venv = open_cell(make_env_factory(partial(Masked, **options)), Cell(2, vec, 2 if vec == "async" else None))
    venv.reset([1, 2])
    timed = Timed(venv, venv.spec.action_space, masks=venv.allowed)
    for _ in range(40):
        timed.turn(0.0)
    assert len(timed.rates) == 40
    venv.close()


@pytest.mark.parametrize("options", FORMS, ids=str)
def test_gymnasiums_vectors_and_a_plain_loop_are_too(options: dict[str, Any]) -> None:
    theirs = SyncVectorEnv([partial(Masked, **options)] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    kept = GymnasiumsMasks(theirs, theirs.reset(seed=1)[1])
    bare = MaskedBare([Masked(**options) for _ in range(2)])
    for envs, masks in ((kept, kept.now), (bare, bare.allowed)):
        timed = Timed(envs, theirs.single_action_space, masks=masks)
        for _ in range(40):
            timed.turn(0.0)
        assert len(timed.rates) == 40
    theirs.close()


@pytest.mark.parametrize("method", [False, True])
def test_vectors_in_processes_are_asked_as_well(method: bool) -> None:
    theirs = AsyncVectorEnv([partial(Masked, method=method)] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    kept = GymnasiumsMasks(theirs, theirs.reset(seed=1)[1])
    timed = Timed(kept, theirs.single_action_space, masks=kept.now)
    for _ in range(10):
        timed.turn(0.0)
    theirs.close()


def test_the_split_of_a_step_is_known() -> None:
    assert beside(make_env_factory(Masked), Cell(2, "sync"), 0.05) is not None


class Slow(Masked):
    """Steps that are worth other processes."""

    def step(self, action: Any) -> Any:
        time.sleep(3e-3)
        return super().step(action)


@pytest.mark.parametrize("timeout", [None, 30.0])
def test_auto_times_both_backends_with_them(timeout: float | None) -> None:
    found = choose(make_env_factory(Slow), 4, cores=2, free_bytes=2**33, seconds=0.2, timeout=timeout)
    assert {"sync", "async (2 processes)"} <= found.rates.keys(), found.reason


def test_the_time_of_choosing_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def passing(seconds: float, result: Any) -> Callable[..., Any]:
        def call(*_: Any) -> Any:
            now[0] += seconds
            return result

        return call

    class Vector:
        num_envs = 2
        step = staticmethod(passing(0.25, None))

    monkeypatch.setattr(timing, "Chooser", lambda space: passing(100.0, np.zeros(2)))
    timed = Timed(Vector(), spaces.Discrete(2), lambda: now[0], masks=passing(10.0, np.ones((2, 2), np.bool_)))
    assert timed.turn(0.5) == 8.0
    assert now[0] == 220.5
