"""Atari 2600 games as they are usually learned (Mnih et al. 2015; Machado et al. 2018): pictures, frame skip, no-ops.

`gymnasium.wrappers.AtariPreprocessing` makes the same pictures (a test holds the two together) but is not used: there a
lost life leads to a new game, so that nothing after the first life would ever be seen and no score would be that of a
whole game; and where a game ends within the frames of a step it shows a picture of the step before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from steadyrl.configs.wrapping import WrapperSettings
from steadyrl.envs.bounds import least_action
from steadyrl.envs.convert import copied
from steadyrl.errors import UserError, install

_SECOND = 2  # the action after FIRE at the beginning of an episode, as in OpenAI's Baselines


def is_atari(spec: EnvSpec | None) -> bool:
    """Whether an id is one of ale-py's."""
    return spec is not None and isinstance(spec.entry_point, str) and spec.entry_point.startswith("ale_py.")


def atari_arguments(settings: WrapperSettings, spec: EnvSpec, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of ale-py's environment under preprocessing: single frames, of which it reads the screen itself.

    Raises:
        UserError: `env_kwargs` ask for frames to be skipped a second time.
    """
    if given.get("frameskip", 1) != 1:
        raise UserError(
            f"env_kwargs has frameskip={given['frameskip']!r}, but Atari preprocessing skips frames itself "
            f"(frame_skip {settings.frame_skip}).",
            remedy="Leave frameskip out and set frame_skip (--frame-skip), or use atari='off' (--atari off).",
            code="bad-value",
        )
    arguments: dict[str, Any] = {"frameskip": 1}
    if "obs_type" not in given:
        arguments["obs_type"] = "ram"  # 128 bytes a frame instead of a picture that nobody looks at
    return arguments


class AtariFrames(gym.Wrapper[Any, Any, Any, Any]):
    """An action is held for some frames; what is seen is the maximum of the last two, grey and resized.

    Grey is ale-py's palette, and `cv2.INTER_AREA` makes 84 x 84 of it, as in Gymnasium, Dopamine and EnvPool. Where a
    game ends before the last frame of a step, its last frame is seen alone.

    Args:
        env: ale-py's environment, one frame a step.
        name: How errors call it.
        frame_skip: Frames of a step.
        noop_max: Frames without action at the beginning of a game: 1 to so many, drawn from the environment's own
            generator; 0 is none.
        screen_size: Height and width; 0 leaves pictures as they are.
        grayscale: [H, W] instead of [H, W, 3].

    Attributes:
        frame_skip: Frames of a step.
        pressed: An action of the game that is held in the place of those that come; None for none.

    Raises:
        UserError: it is no environment of ale-py or skips frames itself, or OpenCV is missing.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        name: str,
        *,
        frame_skip: int = 4,
        noop_max: int = 30,
        screen_size: int = 84,
        grayscale: bool = True,
    ) -> None:
        super().__init__(env)
        ale: Any = getattr(env.unwrapped, "ale", None)
        if ale is None:
            raise UserError(
                f"Atari preprocessing is on, but {name} is no environment of ale-py.",
                remedy="Use atari='off' (--atari off).",
                code="bad-value",
            )
        own = getattr(env.unwrapped, "_frameskip", 1)
        if own != 1:
            raise UserError(
                f"Atari preprocessing skips frames itself (frame_skip {frame_skip}), but {name} skips {own} as well.",
                remedy="Make it with frameskip=1, or use atari='off' (--atari off).",
                code="bad-value",
            )
        self._resize = _resizer() if screen_size else None
        self.frame_skip = frame_skip
        self.pressed: Any = None
        self._noop_max = noop_max
        self._size = screen_size
        self._grayscale = grayscale
        height, width = ale.getScreenDims()
        shape = (height, width) if grayscale else (height, width, 3)
        self._screens = [np.zeros(shape, dtype=np.uint8), np.zeros(shape, dtype=np.uint8)]
        seen = (screen_size, screen_size, *shape[2:]) if screen_size else shape
        self.observation_space = spaces.Box(0, 255, seen, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game."""
        _, info = self.env.reset(seed=seed, options=options)
        frames = int(self.env.unwrapped.np_random.integers(1, self._noop_max + 1)) if self._noop_max else 0
        for _ in range(frames):
            _, _, terminated, truncated, info = self.env.step(idle_action(self.env.unwrapped))
            if terminated or truncated:
                _, info = self.env.reset()
        self._shoot(0)
        return self._seen(single=True), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Hold an action for the frames of a step; rewards are added up."""
        total = 0.0
        held = action if self.pressed is None else self.pressed
        last = self.frame_skip - 1
        for frame in range(self.frame_skip):
            _, reward, terminated, truncated, info = self.env.step(copied(held))
            total += float(reward)
            if terminated or truncated or frame == last:
                self._shoot(0)
                break
            if frame == last - 1:
                self._shoot(1)
        return self._seen(single=frame < last or last == 0), total, terminated, truncated, info

    def _shoot(self, place: int) -> None:
        """The present screen into one of the two places."""
        ale: Any = self.env.unwrapped.ale  # type: ignore[attr-defined]
        (ale.getScreenGrayscale if self._grayscale else ale.getScreenRGB)(self._screens[place])

    def _seen(self, *, single: bool) -> npt.NDArray[np.uint8]:
        """The picture: of both places, or of the first alone."""
        first, second = self._screens
        picture = first if single else np.maximum(first, second)
        if self._resize is None:
            return picture.copy()
        seen: npt.NDArray[np.uint8] = self._resize(picture, self._size)
        return seen


def insist_on_own_actions(env: gym.Env[Any, Any], name: str) -> None:
    """Raise UserError where wrappers beneath the preprocessing make other actions of those that it takes by itself."""
    layer = env
    while isinstance(layer, gym.Wrapper):
        changes = isinstance(layer, gym.ActionWrapper) and not isinstance(layer, gym.wrappers.StickyAction)
        if changes or layer.action_space != layer.env.action_space:
            raise UserError(
                f"{type(layer).__name__}, within {name}, changes its actions, so that Atari preprocessing cannot do "
                "nothing or press FIRE at the beginning of episodes.",
                remedy="Put that wrapper around the preprocessing, with the game's id as the environment: "
                "wrappers=['path/to/file.py:Class'] (--wrapper). Or set noop_max=0, fire_reset=False and "
                "terminal_on_life_loss=False (--noop-max 0 --no-fire-reset --no-terminal-on-life-loss).",
                code="bad-value",
            )
        layer = layer.env


def passing(space: gym.Space[Any], action: Any) -> Any:
    """What wrappers are given for an action of the game itself: it, where they take actions like it, else any.

    Raises:
        UserError: nothing is known that they take.
    """
    pressed = isinstance(action, np.ndarray)
    if isinstance(space, spaces.Box if pressed else spaces.Discrete) and space.contains(action):
        return action
    found = least_action(space)
    if found is None:
        raise UserError(
            f"Atari preprocessing does not know which action to give to wrappers that take {space}.",
            remedy="Set fire_reset=False and terminal_on_life_loss=False (--no-fire-reset --no-terminal-on-life-loss), "
            "or leave that wrapper out.",
            code="bad-value",
        )
    return found


def idle_action(env: gym.Env[Any, Any]) -> Any:
    """The action that does nothing; with continuous actions, the stick in the middle."""
    return 0 if isinstance(env.action_space, spaces.Discrete) else np.zeros(3, dtype=np.float32)


def fire_actions(env: gym.Env[Any, Any]) -> tuple[Any, ...]:
    """FIRE, and one more action as in OpenAI's Baselines; nothing in games without it."""
    if not isinstance(env.action_space, spaces.Discrete):
        return (np.array([0.0, 0.0, 1.0], dtype=np.float32),)
    meanings: list[str] = env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
    if "FIRE" not in meanings:
        return ()
    return (meanings.index("FIRE"), _SECOND) if len(meanings) > _SECOND else (meanings.index("FIRE"),)


def _resizer() -> Any:
    """`cv2.resize` to a square by area.

    Raises:
        UserError: OpenCV is not installed.
    """
    try:
        import cv2
    except ImportError as error:
        raise UserError(
            "Atari preprocessing needs OpenCV, which is not installed.",
            remedy=f"Install it: {install('atari')}.",
            code="missing-extra",
        ) from error
    return lambda picture, size: cv2.resize(picture, (size, size), interpolation=cv2.INTER_AREA)
