"""All wrappers of a run: their order, their limits, the same in every backend, and exact when restored."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

from steadyrl.config import wrappers_from
from steadyrl.configs.wrapping import WrapperSettings
from steadyrl.envs.failures import Origin, read, write
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.registry import find_spec
from steadyrl.envs.vector import make_vec
from steadyrl.envs.wrappers import Canonical, failure_of
from steadyrl.envs.wrapping import stacking_of
from steadyrl.errors import UserError
from support.families import newest
from support.games import Game, needs_ale
from support.snapshots import follow

GAME: dict[str, Any] = {"atari": "on", "screen_size": 0}
HALVES = {"name": "support.own_wrappers:Halves", "kwargs": {"factor": 0.5}}
PENDULUM: list[dict[str, Any]] = [
    {"action_repeat": 3},
    {"sticky_actions": 0.5},
    {"time_in_obs": True},
    {"rescale_obs": True},
    {"clip_obs": 0.5},
    {"rescale_action": True},
    {"clip_action": True},
    {"delay_actions": 3},
    {"delay_obs": 3},
    {"frame_stack": 3},
    {"reward_scale": 0.1},
    {"clip_reward": "sign"},
    {"wrappers": ["support.own_wrappers:Averages", HALVES]},
    {
        "action_repeat": 2, "sticky_actions": 0.25, "time_in_obs": True, "rescale_action": True, "delay_actions": 1,
        "delay_obs": 2, "frame_stack": 4, "reward_scale": 0.5, "clip_obs": 2.0,
        "wrappers": ["gymnasium.wrappers:FlattenObservation"],
    },
]  # fmt: skip


def names(env: Any) -> list[str]:
    found = []
    while isinstance(env, gym.Wrapper):
        found.append(type(env).__name__)
        env = env.env
    return found


def made(env: Any, settings: dict[str, Any], **more: Any) -> Canonical:
    return make_env_factory(env, wrappers=WrapperSettings(**settings), **more)()


def test_without_settings_nothing_is_put_around() -> None:
    assert names(made("CartPole-v1", {})) == ["Canonical", "TimeLimit", "OrderEnforcing"]


def test_no_sticky_actions_are_none() -> None:
    assert make_env_factory("CartPole-v1", wrappers=WrapperSettings(sticky_actions=0.0)).wrapping is None


def test_the_order_is_the_one_that_is_written_down() -> None:
    env = made("Pendulum-v1", PENDULUM[-1], max_episode_steps=50)
    assert names(env) == [
        "Canonical", "FrameStack", "DelayObs", "ChangedObs", "RescaleAction", "DelayActions", "LearnedReward",
        "WholeGames", "TimeInObs", "FlattenObservation", "TimeLimit", "ActionRepeat", "StickyActions", "RawScore",
        "OrderEnforcing",
    ]  # fmt: skip
    game = made(partial(Game, 40, (9,)), {**GAME, "sticky_actions": 0.5, "wrappers": [HALVES]}, max_episode_steps=9)
    assert names(game) == [
        "Canonical", "FrameStack", "LearnedReward", "WholeGames", "Halves", "TimeLimit", "AtariFrames", "StickyActions",
        "RawScore",
    ]  # fmt: skip


@pytest.mark.parametrize(("limit", "repeat", "steps"), [(None, 4, 50), (7, 4, 7), (None, 1, 200), (7, 1, 7)])
def test_a_time_limit_that_is_given_counts_steps_of_the_policy(limit: Any, repeat: int, steps: int) -> None:
    env = made("Pendulum-v1", {"action_repeat": repeat, "time_in_obs": True}, max_episode_steps=limit)
    env.reset(seed=0)
    for t in range(1, steps + 1):
        obs, _, _, truncated, _ = env.step(np.zeros(1, dtype=np.float32))
        assert truncated == (t == steps)
        assert obs[-1] == np.float32(t / steps)


@pytest.mark.parametrize("settings", PENDULUM, ids=lambda settings: "+".join(settings))
def test_every_wrapper_is_restored_exactly(settings: dict[str, Any]) -> None:
    kinds = follow(lambda: made("Pendulum-v1", settings).env, points=2, steps=15, between=20)
    assert kinds == {"native"}


@pytest.mark.parametrize(
    "settings", [{}, {"terminal_on_life_loss": False}, {"grayscale": False, "frame_stack": 2}, {"sticky_actions": 0.5}]
)
def test_games_are_restored_exactly(settings: dict[str, Any]) -> None:
    game = partial(Game, 60, (17, 30), 5)
    kinds = follow(lambda: made(game, {**GAME, "noop_max": 3, **settings}).env, points=4, steps=30, between=12)
    assert kinds == {"native"}


@needs_ale
@pytest.mark.parametrize("name", ["BreakoutNoFrameskip-v4", "ALE/Breakout-v5"])
def test_real_games_are_restored_exactly(name: str) -> None:
    find_spec(name)
    assert follow(lambda: made(name, {}).env, points=2, steps=40, between=40) == {"native"}


@pytest.mark.parametrize("settings", [PENDULUM[-1]], ids=["all"])
def test_workers_see_the_same(settings: dict[str, Any]) -> None:
    factory = make_env_factory("Pendulum-v1", wrappers=WrapperSettings(**settings), max_episode_steps=11)
    actions = np.random.default_rng(0).uniform(-1, 1, (30, 2, 1)).astype(np.float32)
    seen = []
    for vec in ("sync", "async"):
        venv = make_vec(factory, 2, vec=vec)
        parts = [venv.reset([1, 2])[""]]
        for action in actions:
            step = venv.step(action)
            parts += [step.obs[""], step.final_obs[""], step.rewards, np.array([r.return_ for r in step.episodes])]
        venv.close()
        seen.append(parts)
    for one, other in zip(*seen, strict=True):
        np.testing.assert_array_equal(one, other)
    assert sum(len(part) for part in seen[0][4::4]) == 4


@pytest.mark.parametrize(
    ("env", "settings", "said"),
    [
        ("CartPole-v1", {"noop_max": 3}, "noop_max belongs to Atari preprocessing, which is off for CartPole-v1"),
        ("CartPole-v1", {"frame_skip": 2}, "frame_skip belongs to Atari preprocessing"),
        ("CartPole-v1", {"rescale_action": True}, "rescale_action needs actions with finite bounds, but those of Cart"),
        ("CartPole-v1", {"rescale_obs": True}, "rescale_obs needs finite bounds, but the observations of CartPole-v1"),
        (Game, {"time_in_obs": True}, "time_in_obs needs a time limit, and Game has none"),
        ("CartPole-v1", {"atari": "on"}, "CartPole-v1 is no environment of ale-py"),
        ("CartPole-v1", {"wrappers": "Nonsense"}, "There is no wrapper 'Nonsense'"),
        (newest("Taxi"), {"frame_stack": 2}, "frame_stack needs observations"),
        (
            Game,
            {**GAME, "action_repeat": 2},
            "action_repeat is 2, but Atari preprocessing, which is on for Game, holds",
        ),
    ],
)
def test_what_does_not_fit_is_refused(env: Any, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        made(env, settings)


@pytest.mark.parametrize("vec", ["envpool", "native"])
def test_programs_take_no_wrappers(vec: Any) -> None:
    factory = make_env_factory("CartPole-v1", wrappers=WrapperSettings(frame_stack=2))
    with pytest.raises(UserError, match=rf"Wrappers \(frame_stack\) go around single .* with vec='{vec}'"):
        make_vec(factory, 2, vec=vec)


def test_an_instance_is_wrapped_and_made_again_with_its_wrappers() -> None:
    factory = make_env_factory(gym.make("CartPole-v1"), wrappers=WrapperSettings(frame_stack=2))
    assert factory().observation_space.shape == (8,)
    again = factory.remake()()
    assert again.observation_space.shape == (8,)
    assert stacking_of(again) == (2, 0, 4)
    assert stacking_of(gym.make("CartPole-v1")) is None


def test_a_factory_travels_with_its_wrappers() -> None:
    factory = make_env_factory("CartPole-v1", wrappers=WrapperSettings(frame_stack=3, wrappers=(HALVES,)))
    assert cloudpickle.loads(cloudpickle.dumps(factory))().observation_space.shape == (12,)
    assert Origin.of(factory).wrappers == {"frame_stack": 3, "wrappers": [HALVES]}
    assert Origin.of(make_env_factory("CartPole-v1")).wrappers is None


def test_failures_keep_the_wrappers_of_their_environment(tmp_path: Path) -> None:
    env = made(partial(Game, 40, (17,)), {**GAME, "noop_max": 0})
    env.reset(seed=0)
    env.step(1)
    said = {"frame_stack": 3, "wrappers": [HALVES]}
    origin = Origin("CartPole-v1", "CartPole-v1", {}, None, said)
    path = write(tmp_path, failure_of(env, "step", ValueError("x")), origin)
    assert read(path).origin == origin
    document = json.loads(path.read_text())
    for value, message in (([], "'env.wrappers' is a list"), (None, "")):
        document["env"]["wrappers"] = value
        path.write_text(json.dumps(document))
        if message:
            with pytest.raises(UserError, match=message):
                read(path)
    del document["env"]["wrappers"]  # as earlier versions wrote it
    path.write_text(json.dumps(document))
    assert read(path).origin.wrappers is None
    with pytest.raises(UserError, match="There is no wrapper setting 'evil'"):
        wrappers_from({"evil": 1})
    assert wrappers_from(said) == WrapperSettings(frame_stack=3, wrappers=(HALVES,))


def test_a_life_in_the_middle_of_a_game_cannot_be_run_again_from_its_start() -> None:
    env = made(partial(Game, 40, (17,)), {**GAME, "noop_max": 0, "frame_skip": 1, "fire_reset": False})
    env.reset(seed=0)
    assert env.trace.whole
    for _ in range(17):
        env.step(1)
    env.reset()
    assert not env.trace.whole
    env.reset(seed=1)
    assert env.trace.whole
