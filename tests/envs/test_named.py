"""Wrappers by name: found, refused with what was meant, given their arguments."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from steadyrl.envs.atari import AtariFrames
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.named import wrapped, wrapper_of
from steadyrl.envs.vector import make_vec
from steadyrl.errors import UserError
from support import games, own_wrappers
from support.envs import SpaceProbe

HERE = own_wrappers.__file__


def around(name: str, **kwargs: Any) -> Any:
    return wrapped(gym.make("CartPole-v1"), {"name": name, "kwargs": kwargs}, "CartPole-v1")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("FlattenObservation", gym.wrappers.FlattenObservation),
        ("gymnasium.wrappers:FlattenObservation", gym.wrappers.FlattenObservation),
        ("gymnasium.wrappers.FlattenObservation", gym.wrappers.FlattenObservation),
        ("gym.wrappers.TimeLimit", gym.wrappers.TimeLimit),
        ("support.own_wrappers:Halves", own_wrappers.Halves),
        ("support.own_wrappers.Halves", own_wrappers.Halves),
    ],
)
def test_a_name_leads_to_its_class(name: str, found: type) -> None:
    assert wrapper_of(name) is found


def test_a_file_is_loaded() -> None:
    env = around(f"{HERE}:Halves", factor=0.25)
    env.reset(seed=0)
    assert env.step(0)[1] == 0.25


def test_lists_become_tuples_as_json_has_none() -> None:
    assert around("ReshapeObservation", shape=[2, 2]).observation_space.shape == (2, 2)


@pytest.mark.parametrize(
    ("name", "message", "remedy"),
    [
        ("gymnasium.wrappers:FlatenObservation", "no wrapper 'gymnasium.wrappers:FlatenObservation'", "Flatten"),
        ("TimeLimits", "no wrapper 'TimeLimits' in gymnasium.wrappers", "Did you mean TimeLimit"),
        ("Nonsense", "no wrapper 'Nonsense'", "package.module:Nonsense or path/to/file.py:Nonsense"),
        ("support.own_wrappers:Halfs", "support.own_wrappers has no wrapper 'Halfs'", "Halves"),
        ("no_such_package:X", "The module 'no_such_package' of 'no_such_package:X' cannot be imported", "Install"),
        (f"{HERE}:Other", "defines no 'Other'", ""),
        ("no/such/file.py:X", "There is no file", "A wrapper is a name of gymnasium.wrappers, package.module:Class or"),
        ("no/such/file.py", "There is no file", "A wrapper is a name of gymnasium.wrappers"),
        (HERE, f"'{HERE}' names a file, but no wrapper class in it", f"Write {HERE}:Halves or {HERE}:"),
        (f"{HERE}:", f"'{HERE}' names a file, but no wrapper class in it", f"Write {HERE}:Halves or"),
        (f"{HERE}:Masks", "defines no 'Masks'", "Did you mean Masking"),
        (games.__file__, "names a file, but no wrapper class in it", "defines no class derived from gymnasium.Wrapper"),
        (f"{games.__file__}:X", "defines no 'X'", "It has no wrapper classes"),
        ("Autoreset", "The wrapper Autoreset cannot be used: it resets the environment by itself", "Leave it out"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(name: str, message: str, remedy: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        wrapper_of(name)
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        ("TimeLimit", {"limit": 3}, "The wrapper TimeLimit around CartPole-v1 raised TypeError: .*unexpected keyword"),
        ("TimeLimit", {"max_episode_steps": -1}, "raised .*Error"),
        ("support.own_wrappers:no_env", {}, "gave a str, which is no gymnasium.Env"),
    ],
)
def test_wrappers_that_fail_are_named(name: str, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        around(name, **kwargs)
    assert caught.value.code == "wrapper"


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("NormalizeObservation", "normalize_obs=True (--normalize-obs)"),
        ("gymnasium.wrappers:NormalizeReward", "normalize_reward=True (--normalize-reward)"),
        ("support.own_wrappers:Normal", "normalize_obs=True"),
        ("support.own_wrappers:normalised", "normalize_reward=True"),
    ],
)
def test_statistics_that_no_policy_would_hold_are_refused(name: str, cure: str) -> None:
    with pytest.raises(
        UserError, match="around CartPole-v1 learns statistics, which no saved policy would hold"
    ) as caught:
        around(name)
    assert cure in caught.value.remedy
    assert caught.value.code == "wrapper"


@pytest.mark.parametrize("vec", ["sync", "async"])
def test_statistics_of_the_users_own_are_told_once(vec: Any) -> None:
    def own() -> gym.Env[Any, Any]:
        return gym.wrappers.NormalizeReward(gym.wrappers.NormalizeObservation(gym.make("CartPole-v1")))

    venv = make_vec(make_env_factory(own), 2, vec=vec)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        venv.reset([0, 1])
        venv.step(np.zeros(2, dtype=np.int64))
        venv.step(np.zeros(2, dtype=np.int64))
    notes = sorted(str(warning.message) for warning in told)
    assert [note.partition(",")[0] for note in notes] == ["NormalizeObservation", "NormalizeReward"]
    assert "normalize_obs=True (--normalize-obs) does the same" in notes[0]
    venv.close()


def test_preprocessing_is_not_done_twice() -> None:
    frames = AtariFrames(games.Game(), "Game", screen_size=0)
    entry = {"name": "support.own_wrappers:preprocessed", "kwargs": {}}
    with pytest.raises(UserError, match="and Atari preprocessing, which is on for Game, are two of the same"):
        wrapped(frames, entry, "Game")
    wrapped(games.Game(), entry, "Game")


def test_statistics_beneath_are_the_users_own() -> None:
    beneath = gym.wrappers.NormalizeObservation(gym.make("CartPole-v1"))
    made: Any = wrapped(beneath, {"name": "TimeLimit", "kwargs": {"max_episode_steps": 3}}, "X")
    assert made.env is beneath


@pytest.mark.parametrize("name", ["ClipAction", "RescaleAction"])
@pytest.mark.parametrize(
    ("space", "lacks"),
    [
        (spaces.Box(-2, 3, (2,), np.int64), "that are real numbers"),
        (spaces.Box(np.array([1, 0], np.float32), np.array([1, 2], np.float32)), "with room between their bounds"),
    ],
)
def test_actions_that_cannot_be_scaled_are_refused(name: str, space: Any, lacks: str) -> None:
    kwargs = {"min_action": -1.0, "max_action": 1.0} if name == "RescaleAction" else {}
    env = SpaceProbe(spaces.Box(-1, 1, (1,)), space)
    with pytest.raises(UserError, match=f"The wrapper {name} needs actions {lacks}, but those of X are Box"):
        wrapped(env, {"name": name, "kwargs": kwargs}, "X")


def test_paths_may_be_relative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(HERE).parent)
    assert wrapper_of("own_wrappers.py:Halves").__name__ == "Halves"
