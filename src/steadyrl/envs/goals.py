"""The reward of another goal, asked of a goal environment, as a training has it from the environment's steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from steadyrl.envs.around import ActionRepeat
from steadyrl.envs.atari import AtariFrames
from steadyrl.envs.make import EnvFactory
from steadyrl.envs.score import LearnedReward
from steadyrl.errors import UserError

GoalFunction = Callable[[Any, Any, dict[str, Any]], Any]
Layer = gym.Wrapper[Any, Any, Any, Any]

_REWARD, _TERMINATED = "compute_reward", "compute_terminated"
_GOALS = ("achieved_goal", "desired_goal")
# Gymnasium's wrappers that change what a step pays; those derived from RewardWrapper are known by that.
_PAYING = ("NormalizeReward", "MaxAndSkipObservation", "RepeatAction", "AtariPreprocessing")


class GoalFunctions(NamedTuple):
    """`compute_reward` and, where the environment has it, `compute_terminated`, for batches of goals [B, ...]."""

    reward: GoalFunction
    terminated: GoalFunction | None
    env: gym.Env[Any, Any]  # whose they are; close it when they are no longer needed


def goal_functions(source: object) -> GoalFunctions:
    """Those of an environment of this kind, which is made for it and lives as long as they do.

    Rewards go through what `reward_scale` and `clip_reward` put around the environment, as those of its steps do.

    Raises:
        UserError: the environment has no `compute_reward`, cannot be made for this, or is in a wrapper whose doing
            cannot be repeated for another goal.
    """
    if not isinstance(source, EnvFactory) or not source.can_remake:
        raise UserError(
            "Hindsight needs an environment that can be made once more, to ask for the rewards of other goals.",
            remedy="Pass an id or a function instead of an instance.",
            code="no-env",
        )
    env = source.remake()()
    try:
        holder, around = _holder(env, source.id)
        for layer in around:
            _insist_on_same(layer, source.id)
        _insist_on_goals(env, holder, source.id)
    except BaseException:
        env.close()
        raise
    learned = [layer for layer in around if isinstance(layer, LearnedReward)]
    terminated = env.get_wrapper_attr(_TERMINATED) if env.has_wrapper_attr(_TERMINATED) else None
    reward = _through(learned, getattr(holder, _REWARD))
    return GoalFunctions(reward, terminated if callable(terminated) else None, env)


def _holder(env: gym.Env[Any, Any], name: str) -> tuple[gym.Env[Any, Any], list[Layer]]:
    """The outermost layer that has `compute_reward`, and the wrappers around it, from the inside out."""
    layer, around = env, []
    while not callable(getattr(layer, _REWARD, None)):
        if not isinstance(layer, gym.Wrapper):
            raise UserError(
                f"hindsight asks the environment for the reward of other goals, but {name} has no compute_reward.",
                remedy="Give it compute_reward(achieved_goal, desired_goal, info) for batches, or leave hindsight out.",
                code="unsuitable",
            )
        around.append(layer)
        layer = layer.env
    return layer, around[::-1]


def _through(learned: list[LearnedReward], reward: GoalFunction) -> GoalFunction:
    """The same function with what is learned instead of its rewards."""
    if not learned:
        return reward

    def changed(achieved: Any, desired: Any, info: dict[str, Any]) -> Any:
        rewards = np.asarray(reward(achieved, desired, info))
        if rewards.dtype.kind not in "biuf":
            return rewards  # which is refused for what it is
        rewards = rewards.astype(np.float64)
        for layer in learned:
            rewards = layer.learned(rewards)
        return rewards

    return changed


def _insist_on_same(layer: Layer, name: str) -> None:
    """Raise UserError for a wrapper whose steps may pay something else than `compute_reward` beneath it says."""
    package = type(layer).__module__.partition(".")[0]
    if isinstance(layer, ActionRepeat) or (isinstance(layer, AtariFrames) and layer.frame_skip > 1):
        raise _unlike(
            f"repeated actions add up the rewards of several steps of {name}",
            "Leave action_repeat (--action-repeat) out, or let the environment itself take each action several times",
        )
    plain = isinstance(layer, gym.ObservationWrapper | gym.ActionWrapper)
    known = package in ("gymnasium", "steadyrl") and type(layer).__name__ not in _PAYING
    if isinstance(layer, gym.RewardWrapper) or not (plain or known or type(layer).step is gym.Wrapper.step):
        raise _unlike(
            f"the wrapper {type(layer).__name__} may change the rewards of {name}",
            f"Give {type(layer).__name__} a compute_reward(achieved_goal, desired_goal, info) of its own that gives "
            "what its step() would, or leave the wrapper out",
        )


def _insist_on_goals(env: gym.Env[Any, Any], holder: gym.Env[Any, Any], name: str) -> None:
    """Raise UserError where wrappers give goals another form than `compute_reward` beneath them takes."""
    outer, inner = env.observation_space, holder.observation_space
    for key in _GOALS:
        if isinstance(outer, gym.spaces.Dict) and isinstance(inner, gym.spaces.Dict):
            seen, own = outer.spaces.get(key), inner.spaces.get(key)
            if seen is not None and own is not None and seen != own:
                raise _unlike(
                    f"wrappers around {name} make {seen} of its {key}, which is {own}",
                    "Let them leave achieved_goal and desired_goal alone, or give the one that changes them a "
                    "compute_reward of its own",
                )


def _unlike(what: str, cure: str) -> UserError:
    return UserError(
        f"Hindsight asks compute_reward for the rewards of other goals, but {what}, so the two would not agree.",
        remedy=f"{cure}; or leave hindsight out.",
        code="unsuitable",
    )
