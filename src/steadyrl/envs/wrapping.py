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
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from steadyrl.configs.wrapping import ATARI_FIELDS, WrapperSettings
from steadyrl.envs.around import ActionRepeat, ChangedObs, DelayActions, DelayObs, FrameStack, Stacking, TimeInObs
from steadyrl.envs.atari import AtariFrames, atari_arguments, fire_actions, idle_action, is_atari
from steadyrl.envs.named import wrapped
from steadyrl.envs.score import LearnedReward, RawScore, WholeGames
from steadyrl.errors import UserError

ATARI_STACK = 4


@dataclass(frozen=True)
class Wrapping:
    """What goes around the environments of one factory.

    Attributes:
        settings: What the user said.
        atari: Whether Atari preprocessing is on.
        arguments: Of the environment, where preprocessing needs others than its own.
        sticky: Probability of `sticky_actions` that a wrapper is for; 0 where the emulator does it.
    """

    settings: WrapperSettings
    atari: bool
    arguments: Mapping[str, Any]
    sticky: float

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
        if atari and spec is not None and known:
            arguments |= atari_arguments(settings, spec, env_kwargs)
        if known and settings.sticky_actions:
            arguments["repeat_action_probability"] = settings.sticky_actions
        if not atari:
            _insist_on_general(settings, name)
            if not settings.said.keys() - {"atari"}:
                return None
        return cls(settings, atari, arguments, 0.0 if known else settings.sticky_actions)

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
        env = score = RawScore(env)
        if self.sticky:
            env = gym.wrappers.StickyAction(env, self.sticky)
        if self.atari:
            env = AtariFrames(
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
            env = gym.wrappers.TimeLimit(env, limit)
        for entry in settings.wrappers:
            env = wrapped(env, entry, name)
        if settings.time_in_obs:
            env = TimeInObs(env, _limit_for(name, limit, own_limit, self.repeats), name)
        env = self._games(env, score)
        return self._seen(self._acted(env, name), name)

    def _games(self, env: gym.Env[Any, Any], score: RawScore) -> gym.Env[Any, Any]:
        settings = self.settings
        env = WholeGames(
            env,
            score,
            lives=self.atari and settings.terminal_on_life_loss,
            begin=fire_actions(env) if self.atari and settings.fire_reset else (),
            idle=idle_action(env) if self.atari else 0,
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
                space = env.action_space
                if not (isinstance(space, spaces.Box) and space.is_bounded()):
                    raise UserError(
                        f"{setting} needs actions with finite bounds, but those of {name} are {space}.",
                        remedy=f"Leave {setting} (--{setting.replace('_', '-')}) out.",
                        code="bad-value",
                    )
        if settings.rescale_action:
            env = gym.wrappers.RescaleAction(env, np.float32(-1.0), np.float32(1.0))
        if settings.clip_action:
            env = gym.wrappers.ClipAction(env)
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


def _limit_for(name: str, limit: int | None, own: int | None, repeats: int) -> int:
    """Steps of the policy in an episode."""
    if limit is not None:
        return limit
    if own is None:
        raise UserError(
            f"time_in_obs needs a time limit, and {name} has none.",
            remedy="Set max_episode_steps (--max-episode-steps).",
            code="bad-value",
        )
    return -(-own // repeats)
