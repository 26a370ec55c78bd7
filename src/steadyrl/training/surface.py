"""What is looked for at an agent: its environment's spaces, and what other libraries have there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym

from steadyrl.config.habits import ATTRIBUTES
from steadyrl.errors import UserError
from steadyrl.nn.policy import Policy
from steadyrl.training.policies import shown_action, shown_obs
from steadyrl.training.setup import Setup


class Surface:
    """Base of the agent."""

    setup: Setup | None
    policy: Policy

    @property
    def observation_space(self) -> gym.Space[Any]:
        """The space of one observation as the agent's environment has it, its wrappers included.

        Raises:
            UserError: the agent has no environment: a saved policy holds no bounds of observations.
        """
        return self._spaces()[0]

    @property
    def action_space(self) -> gym.Space[Any]:
        """The space of one action as the agent's environment has it, its wrappers included.

        Raises:
            UserError: the agent has no environment.
        """
        return self._spaces()[1]

    def _spaces(self) -> tuple[gym.Space[Any], gym.Space[Any]]:
        if self.setup is None or self.setup.spaces is None:
            raise UserError(
                "This agent was loaded without an environment, and a policy holds no spaces in full: observations "
                f"are {shown_obs(self.policy.obs_spec)}, actions {shown_action(self.policy.action_spec)}.",
                remedy="Pass the environment: steadyrl.load(path, env=...).",
                code="no-env",
            )
        return self.setup.spaces

    if not TYPE_CHECKING:  # a type checker is to see that an attribute is missing

        def __getattr__(self, name: str) -> Any:
            if name in ATTRIBUTES:
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}. {ATTRIBUTES[name]}")
            return object.__getattribute__(self, name)  # which says it, or what went wrong in a property
