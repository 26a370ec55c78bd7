"""The same play in processes that are started in each way."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

import pytest

from steadyrl.checker.experiments import found_in
from steadyrl.checker.probe.starting import METHODS, Starting, starting
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.workers.recipe import Recipe
from support.checked_envs import Walk, variant
from support.checker import codes, stage_of


def elsewhere() -> type[Walk]:
    """The wind is another one in any process but this."""
    home = os.getpid()

    def begin(self: Any) -> None:
        Walk.begin(self)
        self.wind = 0.1 * (os.getpid() == home)

    return variant(begin=begin)


def refusing() -> type[Walk]:
    """Works in this process only."""
    home = os.getpid()

    def begin(self: Any) -> None:
        if os.getpid() != home:
            raise ConnectionError("no server in a copy of this process")
        Walk.begin(self)

    return variant(begin=begin)


def seen(make: Any) -> Starting:
    told = starting(stage_of(make, recipe=Recipe(make_env_factory(make))))
    assert told is not None
    return told


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="not every method is here")
def test_the_play_is_the_same_whatever_starts_the_process() -> None:
    told = seen(Walk)
    assert told.same == list(METHODS)
    assert found_in("starting", told) == []


def test_a_course_that_follows_the_process_is_found() -> None:
    told = seen(elsewhere())
    assert told.differs.keys() == set(multiprocessing.get_all_start_methods())
    assert codes(found_in("starting", told)) == {"SRL-SEED-011"}


def test_what_fails_in_another_process_is_found() -> None:
    told = seen(refusing())
    assert "ConnectionError: no server" in told.fails["fork"]
    assert codes(found_in("starting", told)) == {"SRL-PRC-014"}


def test_nothing_is_said_of_what_cannot_be_sent_or_does_not_repeat() -> None:
    assert starting(stage_of(Walk)) is None
    drawn = variant(observe=lambda self: self.observation_space.sample())
    assert starting(stage_of(drawn, recipe=Recipe(make_env_factory(drawn)))) is None
