"""Small wrappers, one job each; Gymnasium's are used where it has them."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple, SupportsFloat

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from steadyrl.envs.bounds import has_bounds, least_action
from steadyrl.envs.convert import copied
from steadyrl.envs.time_limits import limits_of
from steadyrl.errors import UserError
from steadyrl.spaces.images import channels_last, is_image

Stepped = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]


class Stacking(NamedTuple):
    """How a stacked observation is made of frames.

    Attributes:
        frames: How many, the newest one last.
        axis: Along which they are put together, 0 or -1.
        depth: Entries of one frame along it.
    """

    frames: int
    axis: int
    depth: int


class FrameStack(gym.Wrapper[Any, Any, Any, Any]):
    """The newest observations as one; at the beginning of an episode the first one stands for those before it.

    Vectors [n] become [k n], pictures [H, W] become [k, H, W], and pictures with channels [H, W, C] or [C, H, W] have k
    times as many of them; `spaces.images.channels_last` tells which.

    Args:
        env: The environment.
        frames: k.
        name: How errors call the environment.

    Raises:
        UserError: its observations are no vectors or pictures, or pictures whose channels may come first or last.
    """

    def __init__(self, env: gym.Env[Any, Any], frames: int, name: str) -> None:
        super().__init__(env)
        space = box_of(env, name, "frame_stack", dimensions=(1, 2, 3))
        last = channels_last(*space.shape) if len(space.shape) == 3 else False
        if is_image(space) and last is None:
            raise UserError(
                f"frame_stack cannot tell whether the channels of {name}'s pictures {space.shape} come first or last.",
                remedy="Stack them on an axis of their own, wrappers=[{'name': 'FrameStackObservation', 'kwargs': "
                "{'stack_size': 4}}], and declare image_layout (--image-layout).",
                code="image-layout",
            )
        self._new_axis = len(space.shape) == 2
        shape = (1, *space.shape) if self._new_axis else space.shape
        self.stacking = Stacking(frames, -1 if last else 0, shape[-1 if last else 0])
        low, high = (
            np.concatenate([self._expanded(bound)] * frames, axis=self.stacking.axis)
            for bound in (space.low, space.high)
        )
        self.observation_space = spaces.Box(low, high, dtype=space.dtype.type)
        self._stack: npt.NDArray[Any] = np.zeros(self.observation_space.shape, dtype=space.dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin with the first frame alone."""
        obs, info = self.env.reset(seed=seed, options=options)
        frames, axis, _ = self.stacking
        self._stack = np.concatenate([self._expanded(obs)] * frames, axis=axis)
        return self._stack.copy(), info

    def step(self, action: Any) -> Stepped:
        """The oldest frame goes, a new one comes."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        _, axis, depth = self.stacking
        kept = self._stack[depth:] if axis == 0 else self._stack[..., depth:]
        self._stack = np.concatenate([kept, self._expanded(obs)], axis=axis)
        return self._stack.copy(), reward, terminated, truncated, info

    def _expanded(self, frame: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return frame[None] if self._new_axis else frame


class ActionRepeat(gym.Wrapper[Any, Any, Any, Any]):
    """Each action is taken several times, and the rewards are added up; the end of an episode ends it.

    The environment gets its own copy each time, as it may write into it.
    """

    def __init__(self, env: gym.Env[Any, Any], times: int) -> None:
        super().__init__(env)
        self._times = times

    def step(self, action: Any) -> Stepped:
        """Take the same step until it was taken often enough."""
        total = 0.0
        for _ in range(self._times):
            obs, reward, terminated, truncated, info = self.env.step(copied(action))
            total += float(reward)
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


class DelayActions(gym.Wrapper[Any, Any, Any, Any]):
    """An action takes effect some steps after it was chosen; those before it are 0, as near as the bounds allow."""

    def __init__(self, env: gym.Env[Any, Any], steps: int, name: str) -> None:
        super().__init__(env)
        self._first = _zero_action(env.action_space, name)
        self._waiting = deque([self._first] * steps)
        self._steps = steps

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Nothing is waiting."""
        self._waiting = deque([self._first] * self._steps)
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Stepped:
        """Take the action that has waited long enough."""
        self._waiting.append(copied(action))
        return self.env.step(copied(self._waiting.popleft()))  # it may write into what is given each episode


class DelayObs(gym.Wrapper[Any, Any, Any, Any]):
    """An observation is seen some steps after it was made; before that, zeros."""

    def __init__(self, env: gym.Env[Any, Any], steps: int, name: str) -> None:
        super().__init__(env)
        space = box_of(env, name, "delay_obs")
        self._steps = steps
        self._zero = np.zeros(space.shape, dtype=space.dtype)
        self._waiting: deque[Any] = deque()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Nothing was seen yet."""
        self._waiting.clear()
        obs, info = self.env.reset(seed=seed, options=options)
        return self._late(obs), info

    def step(self, action: Any) -> Stepped:
        """Take a step and see an older one."""
        obs, *rest = self.env.step(action)
        return self._late(obs), *rest

    def _late(self, obs: Any) -> Any:
        self._waiting.append(np.array(obs))
        return self._waiting.popleft() if len(self._waiting) > self._steps else self._zero.copy()


class TimeInObs(gym.Wrapper[Any, Any, Any, Any]):
    """The last number of the observation is the share of the time limit that has passed (Pardo et al. 2018).

    The limits themselves tell it, each in its own steps, so that wrappers may repeat actions above or below them; of
    several limits that counts which ends the episode first.

    Args:
        env: The environment, whose observations are vectors.
        name: How errors call it.

    Raises:
        UserError: it has no time limit, or its observations are something else.
    """

    def __init__(self, env: gym.Env[Any, Any], name: str) -> None:
        super().__init__(env)
        self._limits = limits_of(env)
        if not self._limits:
            raise UserError(
                f"time_in_obs needs a time limit, and {name} has none.",
                remedy="Set max_episode_steps (--max-episode-steps).",
                code="bad-value",
            )
        space = box_of(env, name, "time_in_obs", dimensions=(1,), kinds="f")
        dtype: Any = space.dtype
        low, high = np.append(space.low, 0.0).astype(dtype), np.append(space.high, 1.0).astype(dtype)
        self.observation_space = spaces.Box(low, high, dtype=dtype.type)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """No time has passed."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._timed(obs), info

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        obs, *rest = self.env.step(action)
        return self._timed(obs), *rest  # type: ignore[return-value]

    def _timed(self, obs: Any) -> npt.NDArray[Any]:
        passed = max(limit._elapsed_steps / limit._max_episode_steps for limit in self._limits)
        return np.append(obs, min(passed, 1.0)).astype(self.observation_space.dtype)


class ChangedObs(gym.ObservationWrapper[Any, Any, Any]):
    """Observations clipped at +-`clip`, or brought from their bounds to [-1, 1] where `clip` is None.

    Raises:
        UserError: the observations are not numbers in a Box, or have no finite bounds to be rescaled from.
    """

    def __init__(self, env: gym.Env[Any, Any], clip: float | None, name: str) -> None:
        super().__init__(env)
        space = box_of(env, name, "rescale_obs" if clip is None else "clip_obs", kinds="f" if clip else "fiu")
        self._clip = clip
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        if clip is None and not (has_bounds(space) and (low < high).all()):
            raise UserError(
                f"rescale_obs needs finite bounds, but the observations of {name} are {space}.",
                remedy="Use normalize_obs (--normalize-obs), which learns their scale, or clip_obs.",
                code="bad-value",
            )
        self._middle, self._half = ((low + high) / 2, (high - low) / 2) if clip is None else (low, high)
        self._dtype = np.dtype(np.float64 if space.dtype == np.float64 else np.float32)
        bounds = (-1.0, 1.0) if clip is None else (np.clip(low, -clip, clip), np.clip(high, -clip, clip))
        shaped = [np.broadcast_to(bound, space.shape).astype(self._dtype) for bound in bounds]
        self.observation_space = spaces.Box(shaped[0], shaped[1], dtype=self._dtype.type)

    def observation(self, observation: Any) -> npt.NDArray[Any]:
        """As it is seen."""
        if self._clip is not None:
            clipped: npt.NDArray[Any] = np.clip(np.asarray(observation, self._dtype), -self._clip, self._clip)
            return clipped
        scaled: npt.NDArray[Any] = ((observation - self._middle) / self._half).astype(self._dtype)
        return scaled


def box_of(
    env: gym.Env[Any, Any], name: str, setting: str, dimensions: tuple[int, ...] = (), kinds: str = "fiub"
) -> spaces.Box:
    """The observation space, a Box of so many dimensions and one of these kinds of numbers.

    Raises:
        UserError: it is something else.
    """
    space = env.observation_space
    fits = isinstance(space, spaces.Box) and np.dtype(space.dtype).kind in kinds
    if isinstance(space, spaces.Box) and fits and (not dimensions or len(space.shape) in dimensions):
        return space
    what = {(1,): "vectors", (1, 2, 3): "vectors or pictures"}.get(dimensions, "a Box")
    numbers = " of floats" if kinds == "f" else ""
    raise UserError(
        f"{setting} needs observations that are {what}{numbers}, but those of {name} are {space}.",
        remedy=f"Leave {setting} (--{setting.replace('_', '-')}) out, or flatten them before: "
        "wrappers=['gymnasium.wrappers:FlattenObservation'].",
        code="bad-value",
    )


def _zero_action(space: gym.Space[Any], name: str) -> Any:
    found = None if isinstance(space, spaces.Dict | spaces.Tuple) else least_action(space)
    if found is None:
        raise UserError(
            f"delay_actions does not know what no action is in {space} of {name}.",
            remedy="Leave delay_actions (--delay-actions) out.",
            code="bad-value",
        )
    return found
