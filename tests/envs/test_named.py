"""Wrappers by name: found, refused with what was meant, given their arguments."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from steadyrl.envs.named import wrapped, wrapper_of
from steadyrl.errors import UserError
from support import own_wrappers

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
        ("no/such/file.py:X", "There is no file", ""),
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


def test_paths_may_be_relative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(HERE).parent)
    assert wrapper_of("own_wrappers.py:Halves").__name__ == "Halves"
