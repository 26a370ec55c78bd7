"""Counting exactly: which rows of a vector step count, and what has passed."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces as gs
from gymnasium.vector import AutoresetMode
from hypothesis import given
from hypothesis import strategies as st

from steadyrl.envs.vector import make_vec
from steadyrl.training.stepping import WINDOW, Stepper, passed, within
from support.envs import Ending, Scripted, ScriptedVector
from support.policies import make_policy
from support.spies import tap


@pytest.mark.parametrize(
    ("live", "remaining", "expected"),
    [
        ([1, 1, 1, 1], 10, [1, 1, 1, 1]),
        ([1, 1, 1, 1], 4, [1, 1, 1, 1]),
        ([1, 1, 1, 1], 3, [1, 1, 1, 0]),
        ([1, 1, 1, 1], 1, [1, 0, 0, 0]),
        ([0, 1, 0, 1, 1], 2, [0, 1, 0, 1, 0]),
        ([0, 1, 0, 1, 1], 3, [0, 1, 0, 1, 1]),
        ([0, 0], 1, [0, 0]),
    ],
    ids=str,
)
def test_rows_of_the_highest_index_are_thrown_away(live: list[int], remaining: int, expected: list[int]) -> None:
    given_live = np.array(live, dtype=bool)
    found = within(given_live, remaining)
    assert found.tolist() == [bool(x) for x in expected]
    found[:] = False
    assert given_live.tolist() == [bool(x) for x in live]  # a copy


@given(every=st.integers(1, 30), before=st.integers(0, 200), step=st.integers(0, 100))
def test_multiples_are_counted_one_by_one(every: int, before: int, step: int) -> None:
    assert passed(every, before, before + step) == sum(n % every == 0 for n in range(before + 1, before + step + 1))
    assert passed(0, before, before + step) == 0


def stepper(venv: Any, *, normalize_obs: bool = False) -> Stepper:
    space = venv.spec.obs_space
    policy = make_policy(space, gs.Discrete(3), normalize_obs=normalize_obs)
    return Stepper(venv, list(range(10, 10 + venv.num_envs)), policy)


def test_the_environments_are_reset_once_with_their_own_seeds() -> None:
    venv = make_vec(partial(Scripted, [Ending(2, True, False)]), 2, vec="sync")
    seeds: list[Any] = []
    tap(venv, "reset", seeds.append)
    found = stepper(venv)
    first = found.obs[""]
    assert found.obs[""] is first
    for _ in range(5):
        found.step(np.zeros(2, dtype=np.int64), found.look(100))
    assert seeds == [[10, 11]]
    assert first[0, 3] != first[1, 3]  # what each drew at its reset
    venv.close()


def test_made_up_rows_and_those_beyond_the_total_do_not_count() -> None:
    env = ScriptedVector([[Ending(1, True, False)], [Ending(3, False, True)]], AutoresetMode.NEXT_STEP)
    found = stepper(make_vec(env), normalize_obs=True)
    normalizer = found._policy.normalizer
    assert normalizer is not None
    before = normalizer.statistics[""].count
    counted, ended = [], []
    for remaining in (7, 5, 4, 2):
        valid = found.look(remaining)
        ended += [(e.env_index, e.length) for e in found.step(np.zeros(2, dtype=np.int64), valid)[1]]
        counted.append(valid.tolist())
    assert counted == [[True, True], [False, True], [True, True], [False, False]]
    assert found.counters.timesteps == 5
    assert ended == [(0, 1), (0, 1), (1, 3)]
    assert normalizer.statistics[""].count == before + 5


def test_an_episode_that_ends_in_a_row_that_is_thrown_away_is_not_told() -> None:
    venv = make_vec(partial(Scripted, [Ending(1, True, False)]), 3, vec="sync")
    found = stepper(venv)
    step, ended = found.step(np.zeros(3, dtype=np.int64), found.look(2))
    assert [episode.env_index for episode in step.episodes] == [0, 1, 2]
    assert [episode.env_index for episode in ended] == [0, 1]
    assert list(found.episodes) == ended
    venv.close()


def test_the_window_of_episodes_is_the_last_hundred() -> None:
    venv = make_vec(partial(Scripted, [Ending(1, True, False)]), 1, vec="sync")
    found = stepper(venv)
    for _ in range(WINDOW + 20):
        found.step(np.zeros(1, dtype=np.int64), found.look(10))
    assert len(found.episodes) == WINDOW
    assert found.episodes[0].return_ == 100.0 * 20 + 1
    venv.close()
