"""All wrappers of a run's settings around one environment, in the one order in which they make sense.

From the inside out: the environment; what keeps the raw score; sticky actions; Atari's pictures, or repeated actions;
the time limit, in steps of the policy; wrappers by name; time in the observation; whole games, with lives; what is
learned instead of the reward; delayed, rescaled and clipped actions; rescaled, clipped, delayed and stacked
observations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from steadyrl.configs.wrapping import ATARI_FIELDS, WrapperSettings
from steadyrl.envs.around import ActionRepeat, ChangedObs, DelayActions, DelayObs, FrameStack, Stacking, TimeInObs
from steadyrl.envs.atari import (
    AtariFrames,
    atari_arguments,
    fire_actions,
    idle_action,
    insist_on_own_actions,
    is_atari,
)
from steadyrl.envs.bounds import ClippedActions, lacking
from steadyrl.envs.drawing import StickyActions
from steadyrl.envs.named import wrapped
from steadyrl.envs.score import LearnedReward, RawScore, WholeGames
from steadyrl.envs.time_limits import OwnLimit, limits_of
from steadyrl.envs.told import Told
from steadyrl.errors import UserError

ATARI_STACK = 4


@dataclass(frozen=True)
class Wrapping:
    """What goes around the environments of one factory.

    Attributes:
        settings: What the user said.
        atari: Whether Atari preprocessing is on.
        arguments: Of the environment, where preprocessing needs others than its own.
        sticky: Probability of `sticky_actions` that a wrapper is for; None for the emulator's, or the default.
    """

    settings: WrapperSettings
    atari: bool
    arguments: Mapping[str, Any]
    sticky: float | None

    @classmethod
    def of(
        cls, settings: WrapperSettings | None, name: str, spec: EnvSpec | None, env_kwargs: Mapping[str, Any]
    ) -> Wrapping | None:
        """The wrappers of an environment; None where there are none.

        Args:
            settings: What the user said.
            name: How errors call the environment.
            spec: Gymnasium's specification of its id, where there is one.
            env_kwargs: Its arguments.

        Raises:
            UserError: a setting of Atari preprocessing is given where that is off, or contradicts `env_kwargs`.
        """
        if settings is None:
            return None
        settings = settings.only
        known = is_atari(spec)
        atari = settings.atari == "on" or (settings.atari == "auto" and known and "obs_type" not in env_kwargs)
        arguments: dict[str, Any] = {}
        if atari:
            _insist_on_frame_skip(settings, name)
        if atari and spec is not None and known:
            arguments |= atari_arguments(settings, spec, env_kwargs)
        if known and settings.sticky_actions is not None:
            _insist_on_one_probability(settings.sticky_actions, env_kwargs, name)
            arguments["repeat_action_probability"] = settings.sticky_actions
        if not atari:
            _insist_on_general(settings, name)
            idle = {"atari"} if known or settings.sticky_actions else {"atari", "sticky_actions"}
            if not settings.said.keys() - idle:
                return None
        return cls(settings, atari, arguments, None if known else settings.sticky_actions)

    @property
    def repeats(self) -> int:
        """Steps of the environment in one of the policy."""
        return self.settings.frame_skip if self.atari else self.settings.action_repeat

    @property
    def clips(self) -> bool:
        """Whether the sign of the reward is learned from."""
        return self.settings.clip_reward == "sign" or (self.settings.clip_reward == "auto" and self.atari)

    @property
    def frames(self) -> int:
        """Observations that are seen as one."""
        return self.settings.frame_stack or (ATARI_STACK if self.atari else 1)

    def around(self, env: gym.Env[Any, Any], name: str, limit: int | None, own_limit: int | None) -> gym.Env[Any, Any]:
        """The environment in all of them.

        Args:
            env: The environment.
            name: How errors call it.
            limit: Steps of the policy after which episodes are truncated, where it has no such limit yet.
            own_limit: The limit that it has already, in its own steps.

        Raises:
            UserError: a wrapper does not fit it, or is missing.
        """
        settings = self.settings
        env = score = RawScore(env, Told(env, name))
        if settings.time_in_obs and own_limit is not None and not limits_of(env):
            env = OwnLimit(env, own_limit)
        if self.sticky is not None:
            _insist_on_steady(env, self.sticky, name)
        if self.sticky:
            env = StickyActions(env, self.sticky)
        frames = None
        if self.atari:
            if settings.noop_max or settings.fire_reset or settings.terminal_on_life_loss:
                insist_on_own_actions(env, name)
            env = frames = AtariFrames(
                env,
                name,
                frame_skip=settings.frame_skip,
                noop_max=settings.noop_max,
                screen_size=settings.screen_size,
                grayscale=settings.grayscale,
            )
        elif settings.action_repeat > 1:
            env = ActionRepeat(env, settings.action_repeat)
        if limit is not None:
            _insist_on_first(env, limit, self.repeats, name)
            env = gym.wrappers.TimeLimit(env, limit)
        for entry in settings.wrappers:
            env = wrapped(env, entry, name)
        if settings.time_in_obs:
            env = TimeInObs(env, name)
        env = self._games(env, score, frames)
        return self._seen(self._acted(env, name), name)

    def _games(self, env: gym.Env[Any, Any], score: RawScore, frames: AtariFrames | None) -> gym.Env[Any, Any]:
        settings = self.settings
        env = WholeGames(
            env,
            score,
            lives=self.atari and settings.terminal_on_life_loss,
            begin=fire_actions(env.unwrapped) if self.atari and settings.fire_reset else (),
            idle=idle_action(env.unwrapped) if self.atari else 0,
            frames=frames,
        )
        if self.clips or settings.reward_scale != 1.0:
            env = LearnedReward(env, sign=self.clips, scale=settings.reward_scale)
        return env

    def _acted(self, env: gym.Env[Any, Any], name: str) -> gym.Env[Any, Any]:
        settings = self.settings
        if settings.delay_actions:
            env = DelayActions(env, settings.delay_actions, name)
        for setting in ("rescale_action", "clip_action"):
            if getattr(settings, setting):
                _insist_on_room(env.action_space, setting, name)
        if settings.rescale_action:
            env = gym.wrappers.RescaleAction(env, np.float32(-1.0), np.float32(1.0))
        if settings.clip_action:
            env = ClippedActions(env)
        return env

    def _seen(self, env: gym.Env[Any, Any], name: str) -> gym.Env[Any, Any]:
        settings = self.settings
        if settings.rescale_obs or settings.clip_obs is not None:
            env = ChangedObs(env, settings.clip_obs, name)
        if settings.delay_obs:
            env = DelayObs(env, settings.delay_obs, name)
        if self.frames > 1:
            env = FrameStack(env, self.frames, name)
        return env


def stacking_of(env: gym.Env[Any, Any]) -> Stacking | None:
    """How the observations of an environment are stacked; None where this library did not stack them."""
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, FrameStack):
            return layer.stacking
        layer = layer.env
    return None


def _insist_on_general(settings: WrapperSettings, name: str) -> None:
    odd = [field for field in ATARI_FIELDS if field in settings.said]
    if odd:
        general = {"frame_skip": "action_repeat (--action-repeat) is for every environment", "noop_max": ""}
        raise UserError(
            f"{odd[0]} belongs to Atari preprocessing, which is off for {name}.",
            remedy=". ".join(filter(None, ["Leave it out, or use --atari on", general.get(odd[0], "")])) + ".",
            code="bad-value",
        )


def _insist_on_frame_skip(settings: WrapperSettings, name: str) -> None:
    if settings.action_repeat != 1:
        raise UserError(
            f"action_repeat is {settings.action_repeat}, but Atari preprocessing, which is on for {name}, holds each "
            f"action for the frames of frame_skip ({settings.frame_skip}).",
            remedy="Set frame_skip (--frame-skip) instead, or use atari='off' (--atari off).",
            code="bad-value",
        )


def _insist_on_first(env: gym.Env[Any, Any], limit: int, repeats: int, name: str) -> None:
    """Raise UserError where an environment has a time limit of its own, in its own steps, that comes before another."""
    own = min((found._max_episode_steps for found in limits_of(env) if not isinstance(found, OwnLimit)), default=None)
    if own is not None and own < limit * repeats:
        raise UserError(
            f"max_episode_steps is {limit}, which are {limit * repeats} steps of {name} with {repeats} for an action, "
            f"but it already has a TimeLimit of {own} that comes first.",
            remedy="Set the limit where the environment is made.",
            code="max-episode-steps",
        )


def _insist_on_one_probability(asked: float, env_kwargs: Mapping[str, Any], name: str) -> None:
    """Raise UserError where the arguments of a game say otherwise what the settings say."""
    given = env_kwargs.get("repeat_action_probability", asked)
    if given != asked:
        raise UserError(
            f"sticky_actions is {asked}, but env_kwargs of {name} has repeat_action_probability={given!r}, which says "
            "the same.",
            remedy="Leave one of the two out: sticky_actions (--sticky-actions), or repeat_action_probability.",
            code="bad-value",
        )


def _insist_on_steady(env: gym.Env[Any, Any], asked: float, name: str) -> None:
    """Raise UserError where the emulator of a game that somebody else made repeats actions itself."""
    told = getattr(getattr(env.unwrapped, "ale", None), "getFloat", None)
    own = told("repeat_action_probability") if callable(told) else 0.0
    if own:
        raise UserError(
            f"sticky_actions is {asked}, but the emulator of {name} repeats actions itself, with probability {own:g}.",
            remedy="Make it with repeat_action_probability=0, or leave sticky_actions (--sticky-actions) out.",
            code="bad-value",
        )


def _insist_on_room(space: gym.Space[Any], setting: str, name: str) -> None:
    """Raise UserError for actions that cannot be rescaled or clipped."""
    wanted = lacking(space)
    if wanted:
        flag = setting.replace("_", "-")
        raise UserError(
            f"{setting} needs actions {wanted}, but those of {name} are {space}.",
            remedy=f"Leave {setting} (--{flag}) out: the policy's actions go to the bounds that there are without it.",
            code="bad-value",
        )
