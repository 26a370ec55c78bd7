"""Action masks beneath wrappers that repeat, hold or delay actions are refused where masks bind."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from steadyrl.configs.wrapping import WrapperSettings
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.snapshot import restore, save
from steadyrl.envs.vector import make_vec
from steadyrl.envs.wrappers import Canonical
from steadyrl.errors import UserError
from support.masked import Masked
from support.own_wrappers import Masking, Passing

HOLDING: dict[str, dict[str, Any]] = {
    "--action-repeat": {"action_repeat": 2},
    "--delay-actions": {"delay_actions": 1},
    "--sticky-actions": {"sticky_actions": 0.5},
    "StickyAction": {"wrappers": ({"name": "StickyAction", "kwargs": {"repeat_action_probability": 0.5}},)},
    "RepeatAction": {"wrappers": ({"name": "RepeatAction", "kwargs": {"num_repeats": 2}},)},
    "MaxAndSkipObservation": {"wrappers": ("gymnasium.wrappers:MaxAndSkipObservation",)},
}
OTHERS: list[dict[str, Any]] = [
    {"reward_scale": 0.5},
    {"delay_obs": 1},
    {"frame_stack": 2},
    {"wrappers": ("support.own_wrappers:Passing",)},
]


def made(env: Any, *, bind: bool = True, **settings: Any) -> Canonical:
    factory = make_env_factory(env, wrappers=WrapperSettings(**settings) if settings else None)
    factory.masks_bind = bind
    return factory()


def known(cure: str) -> None:
    if cure[0] != "-" and not hasattr(gym.wrappers, cure):
        pytest.skip(f"this Gymnasium has no {cure}")


@pytest.mark.parametrize("cure", HOLDING)
def test_masks_in_info_are_refused_at_the_first_reset(cure: str) -> None:
    known(cure)
    env = made(Masked, **HOLDING[cure])
    with pytest.raises(UserError, match="Masked gives action masks, but") as caught:
        env.reset(seed=1)
    assert caught.value.code == "mask-held"
    assert cure in caught.value.remedy
    assert "--action-masks off" in caught.value.remedy


@pytest.mark.parametrize("cure", HOLDING)
def test_a_method_that_gives_masks_is_refused_before_anything_is_done(cure: str) -> None:
    known(cure)
    with pytest.raises(UserError, match="gives action masks, but"):
        made(partial(Masked, method=True), **HOLDING[cure])


@pytest.mark.parametrize("method", [False, True])
@pytest.mark.parametrize("settings", OTHERS, ids=str)
def test_other_wrappers_leave_masks_as_they_are(settings: dict[str, Any], method: bool) -> None:
    env = made(partial(Masked, method=method), **settings)
    assert "action_mask" in env.reset(seed=1)[1]


@pytest.mark.parametrize("cure", HOLDING)
def test_nothing_is_refused_where_masks_do_not_bind_or_there_are_none(cure: str) -> None:
    known(cure)
    assert "action_mask" in made(Masked, bind=False, **HOLDING[cure]).reset(seed=1)[1]
    assert made("CartPole-v1", **HOLDING[cure]).reset(seed=1)[1] == {}


@pytest.mark.parametrize("settings", [{"action_repeat": 2}, {"sticky_actions": 0.5}], ids=str)
def test_a_wrapper_outside_is_no_hiding_place(settings: dict[str, Any]) -> None:
    env = made(Masked, wrappers=("support.own_wrappers:Passing",), **settings)
    with pytest.raises(UserError, match="gives action masks, but"):
        env.reset(seed=1)


@pytest.mark.parametrize("method", [False, True])
@pytest.mark.parametrize("settings", [{"action_repeat": 2}, {"sticky_actions": 0.5}], ids=str)
def test_masks_that_come_from_outside_are_of_what_is_chosen(settings: dict[str, Any], method: bool) -> None:
    """A wrapper by name is around what repeats actions: its masks are about the repeated ones."""
    masking = {"name": "support.own_wrappers:Masking", "kwargs": {"method": method}}
    env = made("CartPole-v1", wrappers=(masking,), **settings)
    np.testing.assert_array_equal(env.reset(seed=1)[1]["action_mask"], [False, True])
    with pytest.raises(UserError, match="delay_actions takes actions later"):
        made("CartPole-v1", wrappers=(masking,), delay_actions=1).reset(seed=1)


def test_what_the_user_put_around_an_environment_is_seen_as_well() -> None:
    with pytest.raises(UserError, match="sticky_actions takes the last action again"):
        made(lambda: gym.wrappers.TimeLimit(gym.wrappers.StickyAction(Masked(), 0.5), 9)).reset(seed=1)
    assert made(lambda: Masking(gym.wrappers.StickyAction(gym.make("CartPole-v1"), 0.5))).reset(seed=1)[1]
    assert made(lambda: Passing(Masked())).reset(seed=1)[1]


@pytest.mark.parametrize("vec", ["sync", "async"])
def test_both_backends_refuse(vec: Any) -> None:
    factory = make_env_factory(Masked, wrappers=WrapperSettings(action_repeat=3))
    factory.masks_bind = True
    venv = make_vec(factory, 2, vec=vec, masks="auto")
    with pytest.raises(UserError, match="action_repeat takes each action several times"):
        venv.reset([1, 2])
    venv.close()


def test_what_was_seen_of_masks_is_no_state() -> None:
    env = made(Masked, reward_scale=0.5)
    env.reset(seed=1)
    state = save(env)
    assert "told_mask" not in str(state)
    again = made(Masked, reward_scale=0.5)
    restore(again, state)
