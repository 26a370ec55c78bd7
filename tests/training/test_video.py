from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from steadyrl.configs.wrapping import WrapperSettings
from steadyrl.envs.make import make_env_factory
from steadyrl.errors import RunFailedError, UserError
from steadyrl.training.video import record_episode

av = pytest.importorskip("av")


class Picture(gym.Env[Any, Any]):
    """Draws red for three steps, pays 2 for each, and fails as it is told to."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(
        self,
        size: tuple[int, int] = (64, 96),
        metadata: dict[str, Any] | None = None,
        draw: Callable[[int], Any] | None = None,
        render_mode: str | None = "rgb_array",
        step_error: Exception | None = None,
    ) -> None:
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 12} if metadata is None else metadata
        self.render_mode = render_mode
        self.actions: list[Any] = []
        self.seed: int | None = None
        self.closed = 0
        self._size, self._draw, self._step_error, self._at = size, draw, step_error, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.seed, self._at = seed, 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._step_error is not None:
            raise self._step_error
        self.actions.append(action)
        self._at += 1
        return np.full(1, self._at, np.float32), 2.0, self._at == 3, False, {}

    def render(self) -> Any:
        if self._draw is not None:
            return self._draw(self._at)
        return np.broadcast_to(np.array([200, 30, 40], np.uint8), (*self._size, 3))

    def close(self) -> None:
        self.closed += 1


def decoded(path: Path) -> tuple[list[np.ndarray[Any, Any]], float, str, str]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
        return frames, float(stream.average_rate), stream.codec_context.name, stream.codec_context.pix_fmt


def test_the_mp4_holds_each_drawn_frame_and_the_recording_says_what_happened(tmp_path: Path) -> None:
    env = Picture()
    path = tmp_path / "videos" / "a.mp4"
    recording = record_episode(lambda obs: int(obs[0]) % 2, lambda: env, path, seed=7)
    frames, fps, codec, pixels = decoded(path)
    assert (recording.frames, recording.length, recording.return_) == (4, 3, 6.0)
    assert (recording.path, recording.fps, recording.fps_assumed) == (path, 12.0, False)
    assert (len(frames), fps, codec, pixels) == (4, 12.0, "h264", "yuv420p")
    assert [frame.shape for frame in frames] == [(64, 96, 3)] * 4
    assert np.abs(frames[2].mean(axis=(0, 1)) - [200, 30, 40]).max() < 6
    assert (env.actions, env.seed, env.closed) == ([0, 1, 0], 7, 1)
    assert os.listdir(path.parent) == ["a.mp4"]


def test_odd_sides_get_one_row_and_column_more_and_nothing_is_stretched(tmp_path: Path) -> None:
    picture = np.zeros((63, 95, 3), np.uint8)
    picture[:, 92:] = 255
    record_episode(lambda obs: 0, lambda: Picture(draw=lambda at: picture), tmp_path / "a.mp4", seed=0)
    frames, *_ = decoded(tmp_path / "a.mp4")
    assert frames[0].shape == (64, 96, 3)
    bright = frames[0].mean(axis=2) > 127
    assert not bright[:, :92].any()
    assert bright[:, 92:].all()


def test_a_frame_rate_that_the_environment_does_not_name_is_30_and_said(tmp_path: Path) -> None:
    recording = record_episode(lambda obs: 0, lambda: Picture(metadata={}), tmp_path / "a.mp4", seed=0)
    assert (recording.fps, recording.fps_assumed) == (30.0, True)
    assert decoded(tmp_path / "a.mp4")[1] == 30.0


@pytest.mark.parametrize("max_steps", [None, 2])
def test_the_score_is_raw_whatever_is_learned_from(max_steps: int | None, tmp_path: Path) -> None:
    factory = make_env_factory(Picture, wrappers=WrapperSettings(reward_scale=0.1))
    recording = record_episode(
        lambda obs: 0, lambda: factory("rgb_array"), tmp_path / "a.mp4", seed=0, max_steps=max_steps
    )
    assert (recording.return_, recording.length) == ((6.0, 3) if max_steps is None else (4.0, 2))


def test_a_part_of_an_episode_tells_the_raw_score(tmp_path: Path) -> None:
    wrapped = make_env_factory(Picture, wrappers=WrapperSettings(reward_scale=0.1, frame_stack=2))
    for steps, score in ((2, 4.0), (None, 6.0)):
        recording = record_episode(
            lambda obs: 0, partial(wrapped, "rgb_array"), tmp_path / "a.mp4", seed=0, max_steps=steps
        )
        assert recording.return_ == score


def test_max_steps_ends_it(tmp_path: Path) -> None:
    recording = record_episode(lambda obs: 0, Picture, tmp_path / "a.mp4", seed=0, max_steps=2)
    assert (recording.length, recording.frames, recording.return_) == (2, 3, 4.0)
    assert len(decoded(tmp_path / "a.mp4")[0]) == 3


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_gymnasium_environments(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = gym.make(name, render_mode="rgb_array")
    env.action_space.seed(0)
    recording = record_episode(
        lambda obs: env.action_space.sample(), lambda: env, tmp_path / "a.mp4", seed=0, max_steps=20
    )
    frames, fps, *_ = decoded(tmp_path / "a.mp4")
    assert len(frames) == recording.frames == recording.length + 1 > 10
    assert fps == recording.fps == env.metadata["render_fps"]
    assert frames[0].std() > 5, "a picture, not one colour"
    assert not np.array_equal(frames[0], frames[-1]), "something moves"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere MuJoCo needs no choice")
@pytest.mark.parametrize(
    ("given", "drawn_with"),
    [({}, "egl"), ({"MUJOCO_GL": "osmesa"}, "osmesa"), ({"DISPLAY": ":0"}, None), ({"WAYLAND_DISPLAY": "w"}, None)],
)
def test_mujoco_draws_where_there_is_no_desktop(
    given: dict[str, str], drawn_with: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def draw(_: int) -> Any:
        seen.append(os.environ.get("MUJOCO_GL"))
        return np.zeros((8, 8, 3), np.uint8)

    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL"):
        monkeypatch.setenv(name, "")  # so that what the recording sets is undone
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    record_episode(lambda obs: 0, lambda: Picture(draw=draw), tmp_path / "a.mp4", seed=0)
    assert set(seen) == {drawn_with}


def broken(_: int) -> Any:
    raise gym.error.DependencyNotInstalled("pygame is not installed")


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (lambda: Picture(render_mode=None), "its render_mode is None, not 'rgb_array'"),
        (lambda: Picture(draw=lambda at: None), "its render() returned NoneType"),
        (lambda: Picture(draw=lambda at: np.zeros((4, 4), np.uint8)), "its render() returned an array [4, 4] of uint8"),
        (lambda: Picture(draw=broken), "render() failed with DependencyNotInstalled: pygame is not installed."),
        (lambda: Picture(draw=lambda at: np.zeros((8 + at, 8, 3), np.uint8)), "after a first one of [8, 8, 3]"),
    ],
)
def test_an_environment_that_cannot_render_is_a_users_error(
    env: Callable[[], Picture], said: str, tmp_path: Path
) -> None:
    made = env()
    with pytest.raises(UserError) as raised:
        record_episode(lambda obs: 0, lambda: made, tmp_path / "a.mp4", seed=0)
    assert said in raised.value.message
    assert raised.value.code == "cannot-render"
    assert made.closed == 1
    assert os.listdir(tmp_path) == []


def test_an_error_of_the_environment_is_its_own_and_leaves_no_file(tmp_path: Path) -> None:
    env = Picture(step_error=FileNotFoundError("level.dat"))
    with pytest.raises(FileNotFoundError, match=r"level\.dat"):
        record_episode(lambda obs: 0, lambda: env, tmp_path / "a.mp4", seed=0)
    assert env.closed == 1
    assert os.listdir(tmp_path) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFailedError) as raised:
        record_episode(lambda obs: 0, Picture, tmp_path / "file" / "a.mp4", seed=0)
    assert str(tmp_path / "file" / "a.mp4") in raised.value.message


def test_without_pyav_the_exact_command_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(UserError) as raised:
        record_episode(lambda obs: 0, Picture, tmp_path / "a.mp4", seed=0)
    assert raised.value.code == "missing-extra"
    assert "pip install '.[video]' in a clone" in raised.value.remedy
