"""The raw score of whole games, whatever wrappers learn from: clipped rewards, episodes that end with a life."""

from __future__ import annotations

from typing import Any, SupportsFloat
from weakref import WeakSet

import gymnasium as gym
import numpy as np

from steadyrl.envs.atari import AtariFrames, passing
from steadyrl.envs.drawing import lend
from steadyrl.envs.keys import GAME, PART
from steadyrl.envs.told import Told

Stepped = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]


class RawScore(gym.Wrapper[Any, Any, Any, Any]):
    """Adds up the rewards of an environment as it gives them; next to it, below every other wrapper.

    Args:
        env: The environment.
        told: Makes what it tells fit for the wrappers around; None where it is.

    Attributes:
        total: Raw rewards since the last reset.
    """

    def __init__(self, env: gym.Env[Any, Any], told: Told | None = None) -> None:
        super().__init__(env)
        self._told = told
        self.total = 0.0
        self._lent: np.random.Generator | None = None

    @property
    def told_mask(self) -> bool:
        """Whether the last reset gave an action mask."""
        return self in _TOLD

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A game begins."""
        self.total = 0.0
        inner = self.env.unwrapped
        if seed is not None:
            self._lent = lend(inner, self._lent, seed)
        result = self.env.reset(seed=seed, options=options)
        if self._told is not None:
            result = self._told.reset(result)
        if self._lent is not None and inner._np_random is not self._lent:
            self._lent = None
        if "action_mask" in result[1]:
            _TOLD.add(self)
        else:
            _TOLD.discard(self)
        return result

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        result = self.env.step(action)
        if self._told is not None:
            result = self._told.step(result)
        self.total += float(result[1])
        return result


_TOLD: WeakSet[RawScore] = WeakSet()  # not in an attribute, which would be part of the state that is saved


class WholeGames(gym.Wrapper[Any, Any, Any, Any]):
    """Tells the raw score where a game is over; ends an episode for learning, but no game, where a life is lost.

    After the loss of a life `reset()` without a seed goes on with the game: one step without action, as in OpenAI's
    Baselines and Stable-Baselines3. With a seed or options it begins a new game.

    Args:
        env: The environment, with all wrappers that belong to the game.
        score: Its raw rewards.
        lives: Whether a lost life ends the episode.
        begin: Actions of the game itself that every episode begins with.
        idle: That which does nothing.
        frames: Takes these, whatever the wrappers around it make of actions; None where `env` does.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        score: RawScore,
        *,
        lives: bool = False,
        begin: tuple[Any, ...] = (),
        idle: Any = 0,
        frames: AtariFrames | None = None,
    ) -> None:
        super().__init__(env)
        self._frames = frames
        self._score = score
        self._by_life = lives
        self._begin = list(begin)
        self._idle = idle
        self._lives = 0
        self._part = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game, or go on with one after the loss of a life."""
        goes_on = self._part and seed is None and not options
        self._part = False
        ended: float | None = None
        actions = [self._idle, *self._begin] if goes_on else self._begin
        if not goes_on:
            obs, info = self.env.reset(seed=seed, options=options)
        for action in actions:
            obs, _, terminated, truncated, info = self._pressed(action)
            if terminated or truncated:
                ended, goes_on = (self._score.total if goes_on else ended), False
                obs, info = self.env.reset()
        if self._by_life:
            self._lives = self._lives_left()
        if ended is not None:
            info = {**info, GAME: ended}
        elif goes_on:
            info = {**info, PART: True}
        return obs, info

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            self._part = False
            return obs, reward, terminated, truncated, {**info, GAME: self._score.total}
        if self._by_life:
            # A game may show 0 lives for some frames before it is over (Qbert), and lives may be won.
            before, self._lives = self._lives, self._lives_left()
            if 0 < self._lives < before:
                self._part = True
                return obs, reward, True, False, {**info, PART: True}
        return obs, reward, terminated, truncated, info

    def _pressed(self, action: Any) -> Stepped:
        """Take a step with an action of the game itself."""
        if self._frames is None:
            return self.env.step(action)
        self._frames.pressed = action
        try:
            return self.env.step(passing(self.env.action_space, action))
        finally:
            self._frames.pressed = None

    def _lives_left(self) -> int:
        return int(self.env.unwrapped.ale.lives())  # type: ignore[attr-defined]


class LearnedReward(gym.Wrapper[Any, Any, Any, Any]):
    """What is learned from instead of the reward: it, or its sign, times a factor.

    Args:
        env: The environment.
        sign: Whether its sign stands for the reward (Mnih et al. 2015).
        scale: The factor.
    """

    def __init__(self, env: gym.Env[Any, Any], *, sign: bool = False, scale: float = 1.0) -> None:
        super().__init__(env)
        self._sign = sign
        self._scale = scale

    def step(self, action: Any) -> Stepped:
        """Take a step."""
        obs, reward, *rest = self.env.step(action)
        learned = float(np.sign(float(reward))) if self._sign else float(reward)
        return obs, learned * self._scale, *rest


def score_of(env: gym.Env[Any, Any]) -> float | None:
    """The raw rewards of an environment's game so far; None where its wrappers change none."""
    layer = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, RawScore):
            return layer.total
        layer = layer.env
    return None


def going_on(env: gym.Env[Any, Any], obs: Any, over: bool, info: dict[str, Any]) -> tuple[Any, bool, dict[str, Any]]:
    """As `next_life`, with all that was told beside the observation in place of the score.

    Args:
        env: The environment, in which the game goes on where only a life is lost.
        obs: What the step gave.
        over: Terminated or truncated.
        info: What the step told.
    """
    if PART in info:
        obs, info = env.reset()
        over = GAME in info
    return obs, over, info


def next_life(env: gym.Env[Any, Any], obs: Any, over: bool, info: dict[str, Any]) -> tuple[Any, bool, float | None]:
    """Where a game stands after a step: the observation to act on, whether it is over, and its raw score if told.

    Args:
        env: The environment, in which the game goes on where only a life is lost.
        obs: What the step gave.
        over: Terminated or truncated.
        info: What the step told.
    """
    obs, over, info = going_on(env, obs, over, info)
    return obs, over, info.get(GAME)
