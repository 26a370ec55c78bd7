"""The reward of another goal, asked of a goal environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym

from steadyrl.envs.make import EnvFactory
from steadyrl.errors import UserError

GoalFunction = Callable[[Any, Any, dict[str, Any]], Any]


class GoalFunctions(NamedTuple):
    """`compute_reward` and, where the environment has it, `compute_terminated`, for batches of goals [B, ...]."""

    reward: GoalFunction
    terminated: GoalFunction | None
    env: gym.Env[Any, Any]  # whose they are; close it when they are no longer needed


def goal_functions(source: object) -> GoalFunctions:
    """Those of an environment of this kind, which is made for it and lives as long as they do.

    Raises:
        UserError: the environment has no `compute_reward`, or cannot be made for this.
    """
    if not isinstance(source, EnvFactory) or not source.can_remake:
        raise UserError(
            "Hindsight needs an environment that can be made once more, to ask for the rewards of other goals.",
            remedy="Pass an id or a function instead of an instance.",
            code="no-env",
        )
    env = source.remake()()
    reward, terminated = (_of(env, name) for name in ("compute_reward", "compute_terminated"))
    if reward is None:
        env.close()
        raise UserError(
            f"hindsight asks the environment for the reward of other goals, but {source.id} has no compute_reward.",
            remedy="Give it compute_reward(achieved_goal, desired_goal, info) for batches, or leave hindsight out.",
            code="unsuitable",
        )
    return GoalFunctions(reward, terminated, env)


def _of(env: gym.Env[Any, Any], name: str) -> GoalFunction | None:
    """A method of the outermost wrapper that has it, so that one which changes the reward is asked too."""
    if not env.has_wrapper_attr(name):
        return None
    found = env.get_wrapper_attr(name)
    return found if callable(found) else None
