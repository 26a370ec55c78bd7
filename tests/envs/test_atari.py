"""Atari preprocessing: pictures as a reference makes them by hand, on a stand-in and on ale-py itself."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest

from steadyrl.configs.wrapping import WrapperSettings
from steadyrl.envs.atari import AtariFrames, fire_actions, idle_action
from steadyrl.envs.make import make_env_factory
from steadyrl.envs.registry import find_spec
from steadyrl.errors import UserError
from support import own_wrappers
from support.games import SHAPE, Game, needs_ale, pay_of, screen_of

Picture = npt.NDArray[np.uint8]
Held = tuple[Picture, float, bool]  # picture, reward, whether the game is over


def settings(**changes: Any) -> WrapperSettings:
    return WrapperSettings(**{"atari": "on", "screen_size": 0, **changes})


class Reference:
    """The picture of each step of the stand-in, by hand: single frames, kept in a list."""

    def __init__(self, skip: int, length: int) -> None:
        self.skip, self.length, self.frame = skip, length, 0

    def begin(self, noops: int) -> Picture:
        self.frame = noops
        return screen_of(self.frame, 0)

    def step(self, action: int) -> tuple[Picture, float, bool]:
        shown, total = [], 0.0
        for _ in range(self.skip):
            self.frame += 1
            total += pay_of(self.frame)
            shown.append(screen_of(self.frame, action))
            if self.frame >= self.length:
                break
        whole = len(shown) == self.skip and self.skip > 1
        return np.maximum(shown[-2], shown[-1]) if whole else shown[-1], total, self.frame >= self.length


@pytest.mark.parametrize("skip", [1, 2, 3, 4])
@pytest.mark.parametrize("length", [21, 22, 23, 24])
def test_a_step_shows_the_maximum_of_its_last_two_frames(skip: int, length: int) -> None:
    env = AtariFrames(Game(length), "Game", frame_skip=skip, noop_max=0, screen_size=0)
    reference = Reference(skip, length)
    for _ in range(2):
        np.testing.assert_array_equal(env.reset()[0], reference.begin(0))
        over, t = False, 0
        while not over:
            t += 1
            obs, reward, terminated, truncated, _ = env.step(t % 4)
            picture, total, over = reference.step(t % 4)
            np.testing.assert_array_equal(obs, picture)
            assert (reward, terminated, truncated) == (total, over, False)
    assert env.observation_space.shape == SHAPE


def test_pictures_in_colour_keep_their_channels() -> None:
    env = AtariFrames(Game(), "Game", noop_max=0, screen_size=0, grayscale=False)
    env.reset()
    expected = [screen_of(frame, 2)[..., None] // np.array([1, 2, 3], dtype=np.uint8) for frame in (3, 4)]
    np.testing.assert_array_equal(env.step(2)[0], np.maximum(*expected))
    assert env.observation_space.shape == (*SHAPE, 3)


def test_a_game_begins_with_a_drawn_number_of_frames_without_action() -> None:
    begun = set()
    env = AtariFrames(Game(100), "Game", noop_max=5, screen_size=0)
    game: Any = env.unwrapped
    for episode in range(60):
        game.taken.clear()
        obs, _ = env.reset(seed=3 if episode == 0 else None)
        assert set(game.taken[1:]) == {0}
        begun.add(len(game.taken) - 1)
        np.testing.assert_array_equal(obs, screen_of(len(game.taken) - 1, 0))
    assert begun == {1, 2, 3, 4, 5}
    first = [env.reset(seed=8)[0].tolist() for _ in range(3)]
    assert first[0] == first[1] == first[2]


def test_frames_without_action_that_end_the_game_begin_another_one() -> None:
    env = AtariFrames(Game(3), "Game", noop_max=30, screen_size=0)
    for seed in range(10):
        obs, _ = env.reset(seed=seed)
        assert any((obs == screen_of(frame, 0)).all() for frame in (0, 1, 2))
        env.step(0)


def test_a_stack_of_four_is_the_default() -> None:
    env = make_env_factory(Game, wrappers=settings(noop_max=0, fire_reset=False))()
    first = screen_of(0, 0)
    obs, _ = env.reset()
    np.testing.assert_array_equal(obs, np.stack([first] * 4))
    seen = [first] * 4
    for t in range(6):
        obs = env.step(1)[0]
        seen.append(np.maximum(screen_of(4 * t + 3, 1), screen_of(4 * t + 4, 1)))
        np.testing.assert_array_equal(obs, np.stack(seen[-4:]))
    assert env.observation_space == gym.spaces.Box(0, 255, (4, *SHAPE), np.uint8)


def test_fire_and_idle_are_found_in_the_meanings() -> None:
    game = Game()
    assert (idle_action(game), fire_actions(game)) == (0, (1, 2))
    game.get_action_meanings = lambda: ["NOOP", "UP", "DOWN"]  # type: ignore[method-assign]
    assert fire_actions(game) == ()


BUTTONS = "support.own_wrappers:Buttons"


def pressed(frames: int, settings: WrapperSettings, deaths: tuple[int, ...] = (), chosen: Any = 1) -> list[int]:
    """The actions that a game of three starts got, one after each life, -1 for a reset."""
    env = make_env_factory(partial(Game, frames, deaths), wrappers=settings)()
    game: Any = env.unwrapped
    env.reset(seed=0)
    for _ in range(3):
        over = False
        while not over:
            over = env.step(chosen)[2]
        env.reset()
    taken: list[int] = game.taken
    return taken


@pytest.mark.parametrize(
    ("wrapper", "chosen", "button"),
    [
        ({"name": BUTTONS, "kwargs": {}}, 1, 3),
        ({"name": BUTTONS, "kwargs": {"buttons": [3, 2, 1, 0]}}, 0, 3),
        ({"name": BUTTONS, "kwargs": {"buttons": [0, 3], "way": "numbers"}}, [1], 3),
        ({"name": BUTTONS, "kwargs": {"way": "part"}}, {"button": 1}, 3),
        ({"name": "TimeLimit", "kwargs": {"max_episode_steps": 999}}, 3, 3),
    ],
    ids=["two of them", "in another order", "numbers", "part", "none"],
)
def test_an_episode_begins_with_the_games_own_actions_whatever_wrappers_make_of_them(
    wrapper: dict[str, Any], chosen: Any, button: int
) -> None:
    """FIRE is 1, and what comes after it 2; after a lost life nothing is done first, and that is 0."""
    own = settings(frame_skip=1, noop_max=0, wrappers=(wrapper,))
    taken = pressed(12, own, deaths=(6,), chosen=chosen)
    first, rest = [-1, 1, 2, *[button] * 4], [0, 1, 2, *[button] * 3]
    assert taken == [*first, *rest, *first, 0, 1, 2]


def test_noops_are_the_games_own_actions() -> None:
    own = settings(frame_skip=1, noop_max=4, fire_reset=False, wrappers=({"name": BUTTONS, "kwargs": {}},))
    taken = pressed(30, own)
    assert set(taken) == {-1, 0, 3}
    assert all(taken[i + 1] == 0 for i, action in enumerate(taken) if action == -1)


def test_wrappers_that_take_nothing_known_are_refused() -> None:
    text = {"name": BUTTONS, "kwargs": {"way": "text"}}
    env = make_env_factory(Game, wrappers=settings(wrappers=(text,)))()
    with pytest.raises(UserError, match=r"which action to give to wrappers that take Text") as caught:
        env.reset(seed=0)
    assert "fire_reset=False and terminal_on_life_loss=False" in caught.value.remedy
    without = settings(wrappers=(text,), fire_reset=False, terminal_on_life_loss=False)
    make_env_factory(Game, wrappers=without)().reset(seed=0)


@pytest.mark.parametrize("buttons", [(2, 3), (3, 2, 1, 0)])
def test_wrappers_beneath_that_change_actions_are_refused(buttons: tuple[int, ...]) -> None:
    def own() -> gym.Env[Any, Any]:
        return own_wrappers.Buttons(Game(), buttons)

    with pytest.raises(UserError, match="Buttons, within own, changes its actions, so that Atari") as caught:
        make_env_factory(own, wrappers=settings())()
    assert "(--wrapper)" in caught.value.remedy
    nothing = settings(noop_max=0, fire_reset=False, terminal_on_life_loss=False)
    assert make_env_factory(own, wrappers=nothing)().action_space.n == len(buttons)  # type: ignore[attr-defined]
    make_env_factory(lambda: gym.wrappers.StickyAction(Game(), 0.5), wrappers=settings())()


def test_a_game_that_repeats_actions_itself_takes_no_sticky_actions_besides() -> None:
    game = Game()
    game.ale.getFloat = lambda name: 0.25  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=r"sticky_actions is 0\.25, but the emulator of env repeats actions itself"):
        make_env_factory(lambda: game, wrappers=settings(sticky_actions=0.25))()
    with pytest.raises(UserError, match=r"sticky_actions is 0\.0, but the emulator"):
        make_env_factory(lambda: game, wrappers=settings(sticky_actions=0.0))()
    make_env_factory(lambda: game, wrappers=settings())()
    game.ale.getFloat = lambda name: 0.0  # type: ignore[attr-defined]
    make_env_factory(lambda: game, wrappers=settings(sticky_actions=0.25))()


def test_opencv_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(UserError, match="needs OpenCV, which is not installed") as caught:
        make_env_factory(Game, wrappers=settings(screen_size=84))()
    assert caught.value.remedy == "Install it: pip install '.[atari]' in a clone of the library."


def test_an_environment_that_is_no_game_is_refused() -> None:
    with pytest.raises(UserError, match="Atari preprocessing is on, but CartPole-v1 is no environment of ale-py"):
        make_env_factory("CartPole-v1", wrappers=settings())()


def test_frames_are_not_skipped_twice() -> None:
    game = Game()
    game._frameskip = 4
    with pytest.raises(UserError, match=r"skips frames itself \(frame_skip 4\), but Game skips 4 as well"):
        AtariFrames(game, "Game", screen_size=0)


def test_ids_without_a_namespace_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="'PengNoFrameskip-v4' comes from ale-py, which is not installed") as caught:
        find_spec("PengNoFrameskip-v4")
    assert caught.value.remedy == "Install it: pip install '.[atari]' in a clone of the library."


def by_hand(name: str, seed: int, actions: list[int], *, fire: bool, noop_max: int) -> list[Held]:
    """The pictures of one game from ale-py's single frames, with NumPy and OpenCV alone."""
    import cv2

    env: Any = gym.make(name, obs_type="grayscale", frameskip=1, disable_env_checker=True)
    screen, _ = env.reset(seed=seed)

    def small(picture: Any) -> Picture:
        return np.asarray(cv2.resize(picture, (84, 84), interpolation=cv2.INTER_AREA), dtype=np.uint8)

    def hold(action: int) -> Held:
        screens, total = [], 0.0
        for _ in range(4):
            screen, reward, terminated, truncated, _ = env.step(action)
            screens.append(screen)
            total += reward
            if terminated or truncated:
                return small(screen), total, True
        return small(np.maximum(screens[2], screens[3])), total, False

    for _ in range(env.unwrapped.np_random.integers(1, noop_max + 1)):
        screen = env.step(0)[0]
    found = [(small(screen), 0.0, False)]
    if fire:
        found = [hold(1), hold(2)][-1:]
    for action in actions:
        found.append(hold(action))
        if found[-1][2]:
            break
    env.close()
    return found


@needs_ale
@pytest.mark.parametrize(
    ("name", "fire", "steps"),
    [("PongNoFrameskip-v4", True, 150), ("ALE/Breakout-v5", True, 150), ("MsPacmanNoFrameskip-v4", False, 150)],
)
def test_pictures_of_real_games_equal_those_made_by_hand(name: str, fire: bool, steps: int) -> None:
    find_spec(name)
    only = WrapperSettings(frame_stack=1, clip_reward="off", terminal_on_life_loss=False)
    env = make_env_factory(name, wrappers=only)()
    actions = np.random.default_rng(1).integers(0, 4, steps).tolist()
    expected = by_hand(name, 11, actions, fire=fire, noop_max=30)
    np.testing.assert_array_equal(env.reset(seed=11)[0], expected[0][0])
    for action, (picture, reward, over) in zip(actions, expected[1:], strict=False):
        obs, got, terminated, truncated, _ = env.step(action)
        np.testing.assert_array_equal(obs, picture)
        assert (got, terminated or truncated) == (reward, over)
    env.close()


@needs_ale
def test_pictures_of_a_game_equal_gymnasiums() -> None:
    """`AtariPreprocessing` differs only where a game ends within a step, and after a lost life."""
    find_spec("BreakoutNoFrameskip-v4")
    only = WrapperSettings(frame_stack=1, clip_reward="off", terminal_on_life_loss=False, fire_reset=False)
    ours = make_env_factory("BreakoutNoFrameskip-v4", wrappers=only)()
    theirs = gym.wrappers.AtariPreprocessing(gym.make("BreakoutNoFrameskip-v4", disable_env_checker=True))
    np.testing.assert_array_equal(ours.reset(seed=5)[0], theirs.reset(seed=5)[0])
    rng, games = np.random.default_rng(2), 0
    for _ in range(400):
        action = int(rng.integers(4))
        one, other = ours.step(action), theirs.step(action)
        assert one[1:4] == other[1:4]
        if one[2]:
            games += 1
            one, other = ours.reset(), theirs.reset()  # type: ignore[assignment]
        np.testing.assert_array_equal(one[0], other[0])
    assert games >= 1
    ours.close()
    theirs.close()


@needs_ale
@pytest.mark.parametrize(
    ("kwargs", "shape"),
    [({}, (4, 84, 84)), ({"obs_type": "ram"}, (128,)), ({"obs_type": "rgb", "frameskip": 4}, (210, 160, 3))],
)
def test_auto_is_on_for_the_ids_of_ale_py_unless_another_observation_is_chosen(kwargs: Any, shape: Any) -> None:
    env = make_env_factory("ALE/Pong-v5", env_kwargs=kwargs, wrappers=WrapperSettings())()
    assert env.observation_space.shape == shape
    env.close()
    assert make_env_factory("ALE/Pong-v5", wrappers=WrapperSettings(atari="off")).wrapping is None
    assert make_env_factory("CartPole-v1", wrappers=WrapperSettings()).wrapping is None


@needs_ale
def test_frameskip_in_env_kwargs_is_refused() -> None:
    with pytest.raises(UserError, match=r"env_kwargs has frameskip=2, but Atari preprocessing skips frames itself"):
        make_env_factory("ALE/Pong-v5", env_kwargs={"frameskip": 2}, wrappers=WrapperSettings())


@needs_ale
def test_two_probabilities_of_sticky_actions_are_refused() -> None:
    find_spec("ALE/Pong-v5")
    only = WrapperSettings(sticky_actions=0.5)
    with pytest.raises(UserError, match=r"sticky_actions is 0.5, but env_kwargs of ALE/Pong-v5 has .*=0.1, which says"):
        make_env_factory("ALE/Pong-v5", env_kwargs={"repeat_action_probability": 0.1}, wrappers=only)
    make_env_factory("ALE/Pong-v5", env_kwargs={"repeat_action_probability": 0.5}, wrappers=only)


@needs_ale
@pytest.mark.parametrize("buttons", [(2, 5), (5, 4, 3, 2, 1, 0)])
def test_pong_begins_alike_whatever_wrappers_make_of_its_actions(buttons: tuple[int, ...]) -> None:
    find_spec("PongNoFrameskip-v4")
    begun = []
    for wrappers in ((), ({"name": BUTTONS, "kwargs": {"buttons": list(buttons)}},)):
        env = make_env_factory("PongNoFrameskip-v4", wrappers=WrapperSettings(wrappers=wrappers))()
        begun.append(env.reset(seed=4)[0])
        env.close()
    np.testing.assert_array_equal(*begun)


@needs_ale
def test_sticky_actions_are_the_emulators_own() -> None:
    made = partial(make_env_factory, "PongNoFrameskip-v4")
    find_spec("PongNoFrameskip-v4")
    for asked, expected in ((None, 0.0), (0.0, 0.0), (0.25, 0.25)):
        env: Any = made(wrappers=WrapperSettings(sticky_actions=asked))()
        assert env.unwrapped.ale.getFloat("repeat_action_probability") == expected
        env.close()
    for asked, expected in ((None, 0.25), (0.0, 0.0), (0.5, 0.5)):
        env = make_env_factory("ALE/Pong-v5", wrappers=WrapperSettings(sticky_actions=asked))()
        assert env.unwrapped.ale.getFloat("repeat_action_probability") == expected
        env.close()


@needs_ale
@pytest.mark.parametrize(("atari", "shape"), [("auto", (210, 160, 3)), ("on", (4, 84, 84))])
def test_an_instance_is_made_again_as_it_was(atari: Any, shape: Any) -> None:
    find_spec("ALE/Pong-v5")
    instance = gym.make("ALE/Pong-v5", frameskip=1)
    factory = make_env_factory(instance, wrappers=WrapperSettings(atari=atari))
    assert factory().observation_space.shape == shape
    again = factory.remake()()
    assert again.observation_space.shape == shape
    again.close()
    instance.close()
