"""One episode as an mp4."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from steadyrl.envs.pictures import modes_of, no_pictures
from steadyrl.envs.score import next_life, score_of
from steadyrl.errors import UserError, install, words
from steadyrl.training.jsonlines import write_failed

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.video.stream import VideoStream

DEFAULT_FPS = 30.0
Frame = NDArray[np.uint8]


@dataclass(frozen=True)
class Recording:
    """What was recorded.

    `frames` is one for the first observation and one per step. `fps_assumed` says that the environment names no frame
    rate (`metadata["render_fps"]`), so that 30 was taken.
    """

    path: Path
    frames: int
    fps: float
    return_: float
    length: int
    fps_assumed: bool


def record_episode(
    predict: Callable[[Any], Any],
    make_env: Callable[[], gym.Env[Any, Any]],
    path: Path,
    *,
    seed: int,
    max_steps: int | None = None,
) -> Recording:
    """Play one episode and write it as h264 in an mp4, under its name only once it is whole.

    Args:
        predict: From one observation to one action.
        make_env: Makes the environment with `render_mode="rgb_array"`; it is closed again in every case.
        path: The mp4 file. Its folder is made if it does not exist.
        seed: Seed of the reset.
        max_steps: Stops after this many steps; None goes on to the end of the episode.

    Raises:
        UserError: PyAV is missing, or the environment cannot render to an array.
        RunFailedError: The file cannot be written.
    """
    require_av()
    _draw_into_memory()
    path = Path(path)
    env = make_env()
    try:
        if env.render_mode != "rgb_array":
            raise _cannot_render(env, f"its render_mode is {env.render_mode!r}, not 'rgb_array'")
        named = env.metadata.get("render_fps")
        fps = float(named or DEFAULT_FPS)
        obs, _ = env.reset(seed=seed)
        first = _frame(env)
        with _mp4(path, first, fps) as write:
            total, length, done = 0.0, 0, False
            write(first)
            while not done and (max_steps is None or length < max_steps):
                obs, reward, terminated, truncated, info = env.step(predict(obs))
                obs, done, score = next_life(env, obs, terminated or truncated, info)
                total, length = total + float(reward) if score is None else score, length + 1
                write(_frame(env))
            if not done:  # what was told are rewards to learn from
                so_far = score_of(env)
                total = total if so_far is None else so_far
    finally:
        env.close()
    return Recording(path, length + 1, fps, total, length, fps_assumed=not named)


def require_pictures(make_env: Callable[[], gym.Env[Any, Any]]) -> None:
    """Raises UserError unless the environment that this makes draws pictures at the beginning of an episode."""
    _draw_into_memory()
    env = make_env()
    try:
        env.reset(seed=0)
        _frame(env)
    finally:
        env.close()


def _draw_into_memory() -> None:
    """No desktop is needed: without this pygame complains on stderr where there is none, and MuJoCo fails."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        os.environ.setdefault("MUJOCO_GL", "egl")


def require_av() -> None:
    """Raises UserError unless PyAV is installed."""
    try:
        import av  # noqa: F401
    except ImportError as error:
        raise UserError(
            "Recording a video needs PyAV, which is not installed.",
            remedy=f"Install it: {install('video')}.",
            code="missing-extra",
        ) from error


def _cannot_render(env: gym.Env[Any, Any], why: str) -> UserError:
    name = env.spec.id if env.spec else type(env.unwrapped).__name__
    return UserError(
        f"{name} cannot be recorded: {why}.",
        remedy="Let its render() return an array [height, width, 3] of uint8 under render_mode='rgb_array'.",
        code="cannot-render",
    )


def _frame(env: gym.Env[Any, Any]) -> Frame:
    """What the environment draws, [height, width, 3]."""
    try:
        drawn = env.render()
    except (gym.error.Error, NotImplementedError, ImportError) as error:
        if isinstance(error, NotImplementedError) and "rgb_array" not in modes_of(env):
            name = env.spec.id if env.spec else type(env.unwrapped).__name__
            raise no_pictures(name, "rgb_array", modes_of(env)) from error
        why = f"its render() failed with {type(error).__name__}: {words(error)}"
        raise _cannot_render(env, why.rstrip(".")) from error
    frame = np.asarray(drawn)
    if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8 or frame.size == 0:
        found = type(drawn).__name__ if frame.ndim == 0 else f"an array {list(frame.shape)} of {frame.dtype}"
        raise _cannot_render(env, f"its render() returned {found}")
    return frame


@contextmanager
def _mp4(path: Path, first: Frame, fps: float) -> Iterator[Callable[[Frame], None]]:
    """Opens a hidden file beside `path`, gives a function that adds a frame, and renames at the end."""
    import av

    hidden = path.with_name(f".{path.stem}.{os.getpid()}.mp4")

    def write(frame: Frame) -> None:
        picture = av.VideoFrame.from_ndarray(_padded(frame, first.shape), format="rgb24")
        with _told(path):
            container.mux(stream.encode(picture))

    with _told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        container = av.open(str(hidden), "w", options={"movflags": "+faststart"})
    try:
        try:
            stream = _h264(container, first, fps)
            yield write
            with _told(path):
                container.mux(stream.encode(None))
        finally:
            with _told(path):
                container.close()
        with _told(path):
            hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Around what writes the file, and nothing else: an environment's own OSError is not one of the video's."""
    try:
        yield
    except OSError as error:
        raise write_failed(path, error) from error


def _h264(container: OutputContainer, first: Frame, fps: float) -> VideoStream:
    stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1000))
    stream.height, stream.width = (size + size % 2 for size in first.shape[:2])
    stream.pix_fmt = "yuv420p"
    stream.options = {"crf": "20", "preset": "veryfast"}
    return stream


def _padded(frame: Frame, shape: tuple[int, ...]) -> Frame:
    """The frame with even sides, as yuv420p needs: an odd side gets its last row or column twice."""
    if frame.shape != shape:
        raise UserError(
            f"The environment drew a frame of {list(frame.shape)} after a first one of {list(shape)}.",
            remedy="Let render() return frames of one size.",
            code="cannot-render",
        )
    return np.ascontiguousarray(np.pad(frame, ((0, shape[0] % 2), (0, shape[1] % 2), (0, 0)), mode="edge"))
