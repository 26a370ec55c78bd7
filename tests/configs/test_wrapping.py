"""Wrapper settings: what may be said, in which forms, and what is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium as gym
import pytest

from steadyrl.configs.run import RunSettings
from steadyrl.configs.wrapping import ATARI_FIELDS, WRAPPER_FIELDS, WrapperSettings, wrapper_list
from steadyrl.errors import UserError
from support.own_wrappers import Halves

FLATTEN = {"name": "gymnasium.wrappers:FlattenObservation", "kwargs": {}}


@pytest.mark.parametrize(
    "given",
    [
        "gymnasium.wrappers:FlattenObservation",
        ["gymnasium.wrappers:FlattenObservation"],
        ("gymnasium.wrappers:FlattenObservation",),
        FLATTEN,
        [{"name": "gymnasium.wrappers:FlattenObservation"}],
        '{"name": "gymnasium.wrappers:FlattenObservation"}',
        '[{"name": "gymnasium.wrappers:FlattenObservation", "kwargs": {}}]',
        ('["gymnasium.wrappers:FlattenObservation"]',),
        gym.wrappers.FlattenObservation,
        [gym.wrappers.FlattenObservation],
    ],
)
def test_every_form_of_a_wrapper_says_the_same(given: Any) -> None:
    assert wrapper_list(given) == (FLATTEN,)
    assert WrapperSettings(wrappers=given).wrappers == (FLATTEN,)


def test_several_wrappers_keep_their_order_and_arguments() -> None:
    given = ["A", '{"name": "B", "kwargs": {"x": 1}}', '["C", {"name": "D"}]', Halves]
    assert [(entry["name"], entry["kwargs"]) for entry in wrapper_list(given)] == [
        ("A", {}),
        ("B", {"x": 1}),
        ("C", {}),
        ("D", {}),
        ("support.own_wrappers:Halves", {}),
    ]
    assert wrapper_list(None) == wrapper_list([]) == ()


@pytest.mark.parametrize("given", [3, "", " ", [[3]], {"kwargs": {}}, {"name": "A", "args": []}, {"name": 1}])
def test_what_names_no_wrapper_is_refused_with_an_example(given: Any) -> None:
    with pytest.raises(UserError, match="names no wrapper") as caught:
        wrapper_list(given)
    assert "gymnasium.wrappers:FlattenObservation" in caught.value.remedy


def test_json_that_is_none_is_told() -> None:
    with pytest.raises(UserError, match="begins like JSON and is none"):
        wrapper_list('[{"name": "A"')


def test_a_class_of_the_script_is_refused() -> None:
    class Local(gym.Wrapper[Any, Any, Any, Any]):
        pass

    with pytest.raises(UserError, match="is of this script, where other processes cannot find it"):
        wrapper_list(Local)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"frame_skip": 0}, "frame_skip is 0"),
        ({"noop_max": -1}, "noop_max is -1"),
        ({"frame_stack": 0}, "frame_stack is 0"),
        ({"frame_stack": 257}, "at most 256"),
        ({"reward_scale": 0.0}, "reward_scale is 0.0"),
        ({"sticky_actions": 1.0}, "between 0 and 0.99"),
        ({"clip_obs": 0.0}, "clip_obs is 0.0"),
        ({"clip_obs": 1.0, "rescale_obs": True}, "observations are in"),
        ({"rescale_action": True, "clip_action": True}, "off where rescale_action is on"),
        ({"delay_obs": -1}, "delay_obs is -1"),
        ({"action_repeat": 0}, "action_repeat is 0"),
    ],
)
def test_values_that_cannot_be_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        WrapperSettings(**values)
    with pytest.raises(UserError, match=said):
        RunSettings(env="CartPole-v1", **values)


def test_what_was_said_is_what_is_not_the_default() -> None:
    assert WrapperSettings().said == {}
    run = RunSettings(env="X", seed=3, frame_stack=2, wrappers=("A",), atari="off")
    said: dict[str, Any] = {"atari": "off", "frame_stack": 2, "wrappers": [{"name": "A", "kwargs": {}}]}
    assert run.said == said
    assert type(run.only) is WrapperSettings
    assert run.only == WrapperSettings(**said)
    assert dataclasses.replace(run, frame_stack=None).said == {key: said[key] for key in ("atari", "wrappers")}


def test_every_setting_has_its_text() -> None:
    from steadyrl.config import field_docs

    assert set(ATARI_FIELDS) < set(WRAPPER_FIELDS) < set(RunSettings.__dataclass_fields__)
    assert set(WRAPPER_FIELDS) <= set(field_docs(RunSettings))
