"""Vectors of environments go on alike in every backend and autoreset mode, or say beforehand why they cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from steadyrl.envs.adapter import VectorAdapter
from steadyrl.envs.snapshot import flatten, unflatten
from steadyrl.envs.vector import make_vec
from steadyrl.errors import RunFailedError, UserError
from support.snapshots import Outliving, Walk


class OutOfBounds(Walk):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Box(-1e-3, 1e-3, (2,), np.float64)


def sync(env_id: str, mode: AutoresetMode, num_envs: int = 3) -> VectorAdapter:
    return make_vec(SyncVectorEnv([lambda: gym.make(env_id, max_episode_steps=9)] * num_envs, autoreset_mode=mode))


def go_on_alike(make: Callable[[], VectorAdapter], before: int = 26, after: int = 60) -> None:
    """Save after `before` steps, restore in fresh environments through JSON, and insist on equal steps afterwards."""
    one, other = make(), make()
    space = one.spec.action_space
    space.seed(0)

    def actions() -> Any:
        return np.array([space.sample() for _ in range(one.num_envs)])

    obs = one.reset(list(range(one.num_envs)))
    for _ in range(before):
        obs = one.step(actions()).obs
    packed, arrays = flatten(one.state())
    np.testing.assert_equal(other.restore(unflatten(json.loads(json.dumps(packed)), arrays)), obs)
    ended = 0
    for _ in range(after):
        taken = actions()
        step = one.step(taken)
        np.testing.assert_equal(other.step(taken)._asdict(), step._asdict())
        ended += len(step.episodes)
    assert ended > 3
    np.testing.assert_equal(other.live, one.live)
    one.close()
    other.close()


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Hopper-v5"])
def test_ours_goes_on_alike(env_id: str) -> None:
    go_on_alike(lambda: make_vec(env_id, 3))


def test_ours_goes_on_alike_where_it_is_replayed() -> None:
    make = partial(make_vec, "LunarLander-v3", 2, max_episode_steps=20)
    vec = make()
    vec.reset([0, 1])
    assert vec.ability().kind == "replay"
    vec.close()
    go_on_alike(make)


@pytest.mark.parametrize("before", range(20, 30))
def test_a_native_one_goes_on_alike_also_before_a_made_up_row(before: int) -> None:
    go_on_alike(lambda: make_vec("CartPole-v1", 3, vec="native"), before)


@pytest.mark.parametrize("before", [8, 9, 10])
@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Hopper-v5"])
def test_a_given_sync_one_goes_on_alike_in_every_mode(env_id: str, mode: AutoresetMode, before: int) -> None:
    go_on_alike(lambda: sync(env_id, mode), before)


def test_what_cannot_be_saved_says_so_beforehand() -> None:
    for vec, words in (
        (sync("LunarLander-v3", AutoresetMode.NEXT_STEP), "LunarLander.world is a Box2D"),
        (make_vec(AsyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2)), "live in processes"),
        (make_vec(Outliving, 2), "Outliving.episodes outlives its episodes"),
    ):
        vec.reset(list(range(vec.num_envs)))
        kind, reason = vec.ability()
        assert kind == "none"
        assert words in reason
        with pytest.raises(RunFailedError, match=r"cannot be saved"):
            vec.state()
        vec.close()


def test_a_state_of_others_is_refused() -> None:
    vec = make_vec("CartPole-v1", 2)
    vec.reset([0, 1])
    state = vec.state()
    with pytest.raises(UserError, match=r"of 2 environments CartPole-v1, and these are 3 of CartPole-v1"):
        make_vec("CartPole-v1", 3).restore(state)
    with pytest.raises(UserError, match=r"another kind of vector environment"):
        make_vec("CartPole-v1", 2, vec="native").restore(state)
    del state["returns"]
    with pytest.raises(UserError, match=r"is damaged: KeyError: 'returns'"):
        make_vec("CartPole-v1", 2).restore(state)


def test_what_was_said_once_is_not_said_again() -> None:
    vec = make_vec(OutOfBounds, 1)
    with pytest.warns(UserWarning, match="but its space goes from"):
        vec.reset([0])
    other = make_vec(OutOfBounds, 1)
    other.restore(vec.state())
    other.step(np.array([0]))
    assert other.notes == vec.notes
