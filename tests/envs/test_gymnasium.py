"""Traps of Gymnasium's vectors and of its check: what they do, and that nothing of it reaches a training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import registry
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from steadyrl.envs.make import make_env_factory
from steadyrl.envs.vector import make_vec
from steadyrl.errors import NonFiniteError, SteadyRLError, UserError
from support.envs import ConstantReward, Ending, Scripted
from support.vectors import collect, oracle

ZERO = np.zeros(1, np.int64)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("outside", [False, True])
def test_statistics_of_gymnasiums_own_change_nothing(mode: AutoresetMode, outside: bool) -> None:
    """Their record is in `infos` in one mode and in `final_info` in the other; ours are counted by ourselves."""
    scripts = [[Ending(2, True, False)], [Ending(3, False, True)]]

    def made(script: list[Ending]) -> gym.Env[Any, Any]:
        env = Scripted(script)
        return env if outside else gym.wrappers.RecordEpisodeStatistics(env)

    vector: Any = SyncVectorEnv([partial(made, script) for script in scripts], autoreset_mode=mode)
    if outside:
        vector = gym.wrappers.vector.RecordEpisodeStatistics(vector)
    rows, episodes = collect(make_vec(vector), [4, 5], 9)
    for i in range(2):
        expected_rows, expected = oracle(scripts[i], i, 4 + i, 9)
        assert rows[i] == expected_rows
        assert [(e.return_, e.length) for e in episodes[i]] == [e[:2] for e in expected]


class Custom(gym.Space[Any]):
    """A space that Gymnasium cannot put into shared memory."""

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        return 0

    def contains(self, x: Any) -> bool:
        return True

    @property
    def is_np_flattenable(self) -> bool:
        return False


@pytest.mark.parametrize("vec", ["sync", "async"])
def test_a_space_of_ones_own_is_refused_in_words_in_every_backend(vec: Any) -> None:
    class Own(ConstantReward):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space: Any = Custom((), np.float32)

    Own.__module__ = Custom.__module__ = "__main__"
    with pytest.raises(SteadyRLError) as caught:
        make_vec(Own, 2, vec=vec)
    assert "Custom" in caught.value.message
    assert caught.value.remedy
    if vec == "async":
        assert "Environment 0 cannot be made in its own process" in caught.value.message


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package that registers its ids as it is imported, as ale-py does."""
    (tmp_path / "some_plugin.py").write_text(
        "import gymnasium as gym\nfrom support.envs import ConstantReward\n\n"
        "gym.register('Plugged/One-v0', lambda: ConstantReward(3))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "some_plugin:Plugged/One-v0"
    registry.pop("Plugged/One-v0", None)
    sys.modules.pop("some_plugin", None)


def test_a_plug_in_is_imported_for_its_ids(plugin: str) -> None:
    assert make_env_factory(plugin)().name == plugin


def test_a_vector_of_gymnasium_is_closed_with_ours() -> None:
    """Since Gymnasium 1.3 no destructor does it."""
    vector: Any = AsyncVectorEnv([ConstantReward] * 2, context="forkserver")
    processes = vector.processes
    make_vec(vector).close()
    assert not any(process.is_alive() for process in processes)


Spoil = Callable[[int, list[Any]], None]


class Late(ConstantReward):
    """Keeps to the interface for five steps, which is more than Gymnasium's check looks at."""

    def __init__(self, spoil: Spoil) -> None:
        super().__init__(horizon=40)
        self.spoil, self.steps = spoil, 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        told = list(super().step(action))
        if self.steps >= 6:
            self.spoil(self.steps, told)
        return tuple(told)


def nan(t: int, told: list[Any]) -> None:
    told[0] = np.full_like(told[0], np.nan)


def beyond(t: int, told: list[Any]) -> None:
    told[0] = told[0] + 1e6


def typed(t: int, told: list[Any]) -> None:
    told[4] = {"is_success": ["yes"]}


def shaped(t: int, told: list[Any]) -> None:
    told[0] = np.zeros((2, 2), np.float32)


def flags(t: int, told: list[Any]) -> None:
    told[2] = "no"


@pytest.mark.parametrize("vec", ["sync", "async"])
@pytest.mark.parametrize(
    ("spoil", "kind", "said"),
    [
        (nan, NonFiniteError, "gave nan as entry 0 of its observation in step 6 of its episode"),
        (typed, UserError, r"info\['is_success'\] .* in step 6 of its episode"),
        (shaped, UserError, r"has shape \(2, 2\)"),
        (flags, UserError, "terminated"),
    ],
)
def test_what_breaks_after_the_first_steps_is_named(spoil: Spoil, kind: Any, said: str, vec: Any) -> None:
    envs = make_vec(partial(Late, spoil), 1, vec=vec)
    envs.reset([1])
    for _ in range(5):
        assert envs.step(ZERO).valid.all()
    with pytest.raises(kind, match=said):
        envs.step(ZERO)
    envs.close()


def test_bounds_that_break_after_the_first_steps_are_said_once() -> None:
    class Bounded(Late):
        def __init__(self) -> None:
            super().__init__(beyond)
            self.observation_space = gym.spaces.Box(-100, 100, self.observation_space.shape, np.float32)

    envs = make_vec(Bounded)
    envs.reset([1])
    for _ in range(5):
        envs.step(ZERO)
    assert envs.notes == []
    with pytest.warns(UserWarning, match="but its space goes from -100 to 100"):
        envs.step(ZERO)
    envs.step(ZERO)
    assert len(envs.notes) == 1


def test_a_constant_infinite_observation_is_named_at_the_reset() -> None:
    class Endlessly(ConstantReward):
        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            obs, info = super().reset(seed=seed)
            return np.full_like(obs, np.inf), info

    with pytest.raises(NonFiniteError, match="gave inf as entry 0 of its observation in step 0"):
        make_vec(Endlessly).reset([1])


def test_an_episode_that_ends_at_its_first_step_each_time_is_counted_so() -> None:
    envs = make_vec(partial(ConstantReward, 1), 2)
    envs.reset([1, 2])
    found = [[(e.length, e.return_) for e in envs.step(np.zeros(2, np.int64)).episodes] for _ in range(3)]
    assert found == [[(1, 1.0)] * 2] * 3
