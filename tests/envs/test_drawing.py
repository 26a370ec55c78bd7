"""What wrappers draw: the same for the same seed around any environment, exact when restored and when run again."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from steadyrl.configs.wrapping import WrapperSettings
from steadyrl.envs import failures
from steadyrl.envs.drawing import StickyActions, parted, with_wrappers
from steadyrl.envs.failures import Origin, Record
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.replay import replay
from steadyrl.envs.snapshot import restore, save
from steadyrl.envs.vector import make_vec
from steadyrl.envs.wrappers import Canonical
from steadyrl.errors import RunFailedError, UserError
from support.breaking_envs import BreaksWhen
from support.games import Game
from support.snapshots import both_go_on

STICKY = {"name": "StickyAction", "kwargs": {"repeat_action_probability": 0.5}}


class Unseeded(gym.Env[Any, Any]):
    """Draws nothing and never seeds the generator that Gymnasium gives it; the observation is the action taken."""

    observation_space = spaces.Box(-1e6, 1e6, (1,), np.float32)
    action_space = spaces.Discrete(1000)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action: Any) -> Any:
        return np.full(1, action, dtype=np.float32), 0.0, False, False, {}


class Writing(Unseeded):
    """Writes into its action once it has taken it."""

    action_space = spaces.Box(-9, 9, (1,), np.float32)  # type: ignore[assignment]

    def step(self, action: Any) -> Any:
        result = super().step(action[0])
        action[...] = 7.0
        return result


class Careless(Game):
    """A game that makes nothing of its seed."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return super().reset(options=options)


def made(env: Any, **settings: Any) -> Canonical:
    return make_env_factory(env, wrappers=WrapperSettings(**settings))()


def taken(env: gym.Env[Any, Any], first: int = 0, steps: int = 40) -> list[float]:
    """What the environment did when action t was chosen in step t."""
    return [float(env.step(t)[0][0]) for t in range(first, first + steps)]


@pytest.mark.parametrize("settings", [{"sticky_actions": 0.5}, {"wrappers": [STICKY]}], ids=["own", "by name"])
def test_a_seed_decides_around_an_environment_that_makes_nothing_of_it(settings: dict[str, Any]) -> None:
    episodes = []
    for seed in (3, 3, 4):
        env = made(Unseeded, **settings)
        env.reset(seed=seed)
        first = taken(env)
        env.reset()
        episodes.append((first, taken(env)))
    assert episodes[0] == episodes[1]
    assert episodes[0] != episodes[2]
    assert episodes[0][0] != episodes[0][1]  # without a seed the generator goes on
    again = made(Unseeded, **settings)
    again.reset(seed=9)
    taken(again)
    again.reset(seed=3)
    assert taken(again) == episodes[0][0]


def test_the_last_action_that_was_taken_stays_with_the_probability() -> None:
    env = StickyActions(Unseeded(), 0.25)
    env.reset(seed=1)
    results = [float(env.step(t % 1000)[0][0]) for t in range(4000)]
    held = [now == before for now, before in zip(results[1:], results, strict=False)]
    assert all(same or now == t % 1000 for t, (now, same) in enumerate(zip(results[1:], held, strict=True), 1))
    assert abs(np.mean(held) - 0.25) < 0.03
    assert results[0] == 0.0


def test_its_numbers_are_not_those_that_an_environment_draws_from_the_same_seed() -> None:
    env = StickyActions(gym.make("CartPole-v1"), 0.5)
    env.reset(seed=5)
    own = gym.utils.seeding.np_random(5)[0]
    assert not set(env.generator.random(100)) & set(own.random(1000))


def test_an_environment_that_seeds_its_generator_draws_what_it_draws_alone() -> None:
    observed = []
    for settings in ({}, {"sticky_actions": 0.5}):
        env = made("CartPole-v1", **settings)
        env.reset(seed=3)
        for _ in range(4):
            env.step(0)
        observed.append(env.reset()[0].tolist())
    assert observed[0] == observed[1]


def test_a_generator_of_the_environments_own_making_is_left_alone() -> None:
    class Fixed(Unseeded):
        def __init__(self) -> None:
            self._np_random, self._np_random_seed = gym.utils.seeding.np_random(77)

    env = made(Fixed, frame_stack=2)
    env.reset(seed=3)
    assert env.unwrapped.np_random.random() == gym.utils.seeding.np_random(77)[0].random()


def test_frames_without_action_are_drawn_alike_around_a_game_that_makes_nothing_of_its_seed() -> None:
    begun = []
    for seed in (2, 2, 5):
        env = made(partial(Careless, 100), atari="on", screen_size=0, noop_max=30, fire_reset=False)
        game: Any = env.unwrapped
        for episode in range(6):
            env.reset(seed=seed if episode == 0 else None)
        begun.append(list(game.taken))
    assert begun[0] == begun[1] != begun[2]


def test_a_sticky_environment_goes_on_exactly_from_a_snapshot() -> None:
    one = made(Unseeded, sticky_actions=0.5)
    one.reset(seed=3)
    taken(one, steps=17)
    other = made(Unseeded, sticky_actions=0.5)
    restore(other, save(one))
    assert taken(one, 17) == taken(other, 17)
    one.reset(), other.reset()
    both_go_on(one, other, 20)


def test_actions_are_not_those_that_an_environment_made_of_them() -> None:
    env = made(Writing, sticky_actions=0.9)
    env.reset(seed=0)
    seen = [float(env.step(np.full(1, t, dtype=np.float32))[0][0]) for t in range(7)]
    assert max(seen) < 7.0


@pytest.mark.parametrize(
    "settings",
    [{"action_repeat": 3}, {"delay_actions": 2}, {"sticky_actions": 0.5}, {"action_repeat": 2, "delay_actions": 1}],
)
def test_each_step_has_an_action_of_its_own_to_write_into(settings: dict[str, Any]) -> None:
    class Summing(Writing):
        def step(self, action: Any) -> Any:
            given.append(float(action[0]))
            return super().step(action)

    given: list[float] = []
    env = made(Summing, **settings)
    for _ in range(2):
        env.reset(seed=0)
        for t in (1.0, 2.0, 3.0):
            env.step(np.full(1, t, dtype=np.float32))
    assert 7.0 not in given
    if "sticky_actions" not in settings:
        late, times = settings.get("delay_actions", 0), settings.get("action_repeat", 1)
        assert given == [t for t in [*[0.0] * late, 1.0, 2.0, 3.0][:3] for _ in range(times)] * 2


def broken(seed: int) -> tuple[Any, Any]:
    """The first failure of a sticky environment, and what makes it."""
    factory = make_env_factory(
        lambda: BreaksWhen(spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(3), 0.02),
        wrappers=WrapperSettings(sticky_actions=0.5),
    )
    venv = make_vec(factory, 1)
    venv.reset([seed])
    rng = np.random.default_rng(seed)
    for _ in range(2000):
        try:
            venv.step(rng.integers(3, size=1))
        except RunFailedError as error:
            venv.close()
            return error.failure, factory
    raise AssertionError("nothing failed")


def test_a_failure_in_a_later_episode_comes_again_from_its_file(tmp_path: Path) -> None:
    failure, factory = next(found for seed in range(20) if (found := broken(seed))[0].seed is None)
    record = failures.read(failures.write(tmp_path, failure, Origin.of(factory)))
    assert replay(record, factory).result == "same"
    own, (drawn,) = parted(failure.random_state)
    assert own is not None
    results = set()
    for _ in range(8):  # some of them lead to the same few draws
        drawn["state"]["state"] = drawn["state"]["state"] * 3 % 2**128
        results.add(replay(Record(failure, Origin.of(factory), "", {}), factory).result)
    assert results != {"same"}


@pytest.mark.parametrize("bad", [{"wrappers": 3}, {"wrappers": [3]}, {"wrappers": [{"bit_generator": "os"}]}])
def test_a_file_with_other_random_states_is_refused(bad: dict[str, Any]) -> None:
    failure, factory = broken(1)
    failure = Record(failure, Origin.of(factory), "", {})
    object.__setattr__(failure.failure, "random_state", bad)
    with pytest.raises(UserError, match="The field 'random_state' is no state of a generator"):
        replay(failure, factory)


def test_states_are_put_together_and_parted() -> None:
    layer = StickyActions(Unseeded(), 0.5)
    layer.reset(seed=1)
    state = layer.generator.bit_generator.state
    assert parted(with_wrappers(None, [layer])) == (None, [state])
    assert parted(with_wrappers({"bit_generator": "PCG64"}, [layer])) == ({"bit_generator": "PCG64"}, [state])
    assert parted({}) == ({}, [])
