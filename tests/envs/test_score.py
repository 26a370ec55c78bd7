"""Whole games and their raw scores, whatever is learned from; case 11 of public bug reports."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from steadyrl.configs.wrapping import WrapperSettings
from steadyrl.envs.keys import GAME, PART
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.score import LearnedReward, RawScore, WholeGames, next_life
from steadyrl.envs.types import EpisodeRecord, Step
from steadyrl.envs.vector import make_vec
from steadyrl.training.evaluating import run_episodes
from support.games import Game, needs_ale, pay_of

DEATHS = (17, 30)


def settings(**changes: Any) -> WrapperSettings:
    plain = {"atari": "on", "screen_size": 0, "noop_max": 0, "fire_reset": False, "frame_skip": 2, "frame_stack": 1}
    return WrapperSettings(**{**plain, **changes})


def games(length: int = 40, deaths: tuple[int, ...] = DEATHS, *, lives: bool = True, begin: Any = ()) -> WholeGames:
    score = RawScore(Game(length, deaths))
    return WholeGames(score, score, lives=lives, begin=begin)


def paid(frames: range) -> float:
    return sum(pay_of(frame) for frame in frames)


def played(venv: Any, steps: int) -> tuple[list[Step], list[EpisodeRecord]]:
    venv.reset(list(range(venv.num_envs)))
    found = [venv.step(np.full(venv.num_envs, t % 4)) for t in range(steps)]
    venv.close()
    return found, [record for step in found for record in step.episodes]


def test_a_lost_life_ends_an_episode_but_no_game() -> None:
    env = games()
    env.reset()
    seen, frame = [], 0
    for _ in range(38):
        *_, terminated, truncated, info = env.step(3)
        frame += 1
        if terminated or truncated:
            seen.append((frame, terminated, {key: info[key] for key in (GAME, PART) if key in info}))
            _, info = env.reset()
            assert (PART in info) == (frame < 40)
            frame = frame + 1 if PART in info else 0  # one step without action goes on with the game
    assert seen == [(17, True, {PART: True}), (30, True, {PART: True}), (40, True, {GAME: paid(range(1, 41))})]
    game: Any = env.unwrapped
    assert [game.taken[i] for i in (18, 31)] == [0, 0]
    assert game.taken.count(-1) == 2


def test_a_seed_begins_a_new_game_even_after_a_lost_life() -> None:
    env = games()
    env.reset()
    for _ in range(17):
        env.step(1)
    _, info = env.reset(seed=1)
    assert PART not in info
    assert env.unwrapped.ale.frame == 0  # type: ignore[attr-defined]


def test_a_game_that_ends_on_the_way_to_the_next_life_is_told() -> None:
    env = games(18)  # the life is lost in frame 17, and the step without action is frame 18, the last
    env.reset()
    for _ in range(17):
        info = env.step(1)[4]
    assert info[PART]
    _, info = env.reset()
    assert info[GAME] == paid(range(1, 19))
    assert PART not in info


def test_lives_that_are_zero_before_the_end_end_nothing() -> None:
    env = games(40, (17,))
    env.reset()
    env.unwrapped.ale.lives = lambda: 0 if env.unwrapped.ale.frame > 16 else 2  # type: ignore[attr-defined]
    assert [env.step(1)[2] for _ in range(40)] == [False] * 39 + [True]


def test_every_episode_begins_with_fire() -> None:
    env = games(begin=(1, 2))
    game: Any = env.unwrapped
    env.reset()
    for _ in range(15):
        env.step(3)
    env.reset()
    assert game.taken == [-1, 1, 2, *[3] * 15, 0, 1, 2]


@pytest.mark.parametrize(("vec", "limit"), [("sync", None), ("sync", 13), ("sync", 19), ("async", 19)])
def test_case_11_counters_are_right_with_lives_and_a_time_limit(vec: Any, limit: int | None) -> None:
    """envpool#299: with lives as ends of episodes and a time limit, the return went over into the next episode."""
    factory = make_env_factory(partial(Game, 41, DEATHS), max_episode_steps=limit, wrappers=settings())
    found, records = played(make_vec(factory, 2, vec=vec), 100)
    ends = [step.terminated | step.truncated for step in found]
    frames, parts, steps = 0, 0, 0
    expected = []
    for _ in range(100):  # by hand: two frames a step, one idle step after a life, a limit in steps of the policy
        steps += 1
        inner_limit = limit or 10**9
        before, frames = frames, min(frames + 2, 41)
        lost = any(before < death <= frames for death in DEATHS)
        taken = steps + parts
        if frames >= 41 or taken >= inner_limit:
            expected.append((paid(range(1, frames + 1)), steps, frames >= 41))
            frames, parts, steps = 0, 0, 0
        elif lost:
            parts += 1
            frames = min(frames + 2, 41)
            if frames >= 41 or steps + parts >= inner_limit:
                expected.append((paid(range(1, frames + 1)), steps, True))
                frames, parts, steps = 0, 0, 0
    for env in range(2):
        own = [(r.return_, r.length, r.terminated) for r in records if r.env_index == env]
        assert own == expected
        assert len(own) >= 4
    assert np.sum(ends) > len(records) or limit == 13
    assert all(np.abs(step.rewards).max() <= 1.0 for step in found)  # what is learned from is clipped
    assert sum(record.length for record in records) <= 200


def test_scales_and_signs_are_learned_from_and_not_logged() -> None:
    for changes in (
        {"clip_reward": "sign"},
        {"clip_reward": "off", "reward_scale": 0.125},
        {"clip_reward": "off"},
        {"clip_reward": "sign", "reward_scale": 0.125},
        {"clip_reward": "auto", "reward_scale": 4.0},
    ):
        factory = make_env_factory(partial(Game, 9), wrappers=settings(frame_skip=1, **changes))
        found, records = played(make_vec(factory, 1), 9)
        raw = [pay_of(frame) for frame in range(1, 10)]
        learned = np.array(raw) if changes["clip_reward"] == "off" else np.sign(raw)
        learned = learned * changes.get("reward_scale", 1.0)
        np.testing.assert_array_equal([step.rewards[0] for step in found], learned)
        assert [record.return_ for record in records] == [sum(raw)]


def test_the_reward_alone_is_changed() -> None:
    env = LearnedReward(Game(3), scale=2.0)
    env.reset()
    results = [env.step(0)[1:4] for _ in range(3)]
    assert results == [(2 * pay_of(f), f == 3, False) for f in (1, 2, 3)]


class Still:
    """A policy that takes one action; what it remembers is how often it was asked since an episode began."""

    masked = False

    def __init__(self, spec: Any) -> None:
        self.obs_spec = self.stored_spec = spec
        self.begun = 0

    def initial_state(self, count: int) -> Any:
        return np.zeros((count, 0), dtype=np.float32)

    def respond(self, batch: Any, state: Any, starts: Any, *, stream: Any) -> Any:
        self.begun += int(starts.sum())
        return np.ones(len(next(iter(batch.values()))), dtype=np.int64), state


def test_evaluations_play_whole_games_for_their_raw_score() -> None:
    from steadyrl.spaces import ObsSpec

    factory = make_env_factory(partial(Game, 41, DEATHS), wrappers=settings())
    envs: list[gym.Env[Any, Any]] = [factory() for _ in range(2)]
    policy: Any = Still(ObsSpec.of(envs[0].observation_space))
    result = run_episodes(policy, envs, [1, 2, 3])
    assert result.returns.tolist() == [paid(range(1, 42))] * 3
    assert result.lengths.tolist() == [19] * 3  # 21 steps of two frames but for the two after a lost life
    assert policy.begun == 9  # what is remembered starts anew with each life, as in training


def test_next_life_ends_with_the_game() -> None:
    env = games(18)
    env.reset()
    for _ in range(17):
        obs, _, terminated, _, info = env.step(1)
    _, over, score = next_life(env, obs, terminated, info)
    assert (over, score) == (True, paid(range(1, 19)))


@needs_ale
def test_a_real_game_is_counted_whole() -> None:
    """The sum over ale-py's own frames, in a game of five lives."""
    import gymnasium as gym

    factory = make_env_factory("BreakoutNoFrameskip-v4", wrappers=WrapperSettings(noop_max=0))
    venv = make_vec(factory, 1)
    venv.reset([4])
    raw = gym.make("BreakoutNoFrameskip-v4", obs_type="ram", disable_env_checker=True)
    raw.reset(seed=4)
    total, lives, ends, length = 0.0, 5, 0, 0

    def hold(action: int) -> bool:
        nonlocal total
        for _ in range(4):
            _, reward, terminated, _, _ = raw.step(action)
            total += float(reward)
            if terminated:
                return True
        return False

    for action in (1, 2):
        hold(action)
    rng = np.random.default_rng(3)
    while True:
        action = int(rng.integers(4))
        step, length = venv.step(np.array([action])), length + 1
        over = hold(action)
        left = raw.unwrapped.ale.lives()  # type: ignore[attr-defined]
        ends += int(step.terminated[0])
        if over:
            break
        if left < lives:
            lives = left
            for idle in (0, 1, 2):
                hold(idle)
    (record,) = step.episodes
    assert (record.return_, record.length, ends) == (total, length, 5)
    assert total > 0
    venv.close()
