"""What an agent answers about an observation: actions and values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from steadyrl.configs.validate import truth
from steadyrl.seeding import Stream
from steadyrl.training.determinism import repeatable
from steadyrl.training.predicting import insist_on_masks, predicted, valued
from steadyrl.training.surface import Surface
from steadyrl.training.threads import computing_threads


class Answers(Surface):
    """Base of the agent."""

    predict_stream: Stream

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Inside, this agent's networks compute with its number of threads, and with the weights they were given."""
        self.policy.regain()
        threads = self.setup.settings.threads if self.setup else None
        some = not all(part.on_kernels for part in self.policy.parts.values())
        wanted = self.setup is not None and self.setup.settings.deterministic
        with repeatable(wanted), computing_threads(threads, native=self.policy.native, torch_too=some):
            yield

    def predict(
        self,
        obs: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[npt.NDArray[Any], Any]:
        """Actions for raw observations, as the environment takes them.

        Args:
            obs: One observation, or a batch with one more leading dimension.
            state: What a recurrent policy (`recurrent`) returned with its last action, float32 [S] or [B, S]; None at
                the beginning. Other policies hand it back as it is.
            episode_start: Where the observation is the first of an episode, one truth value or [B]: the state starts
                anew there, whatever it is.
            deterministic: The most likely action instead of a sampled one.
            action_masks: What is allowed, one truth value for each action (for MultiDiscrete those of each entry one
                after the other, or a tuple of arrays), [width] or [B, width]; None is everything.

        Returns:
            One action or a batch of them, in the action space's shape and dtype, dictionaries and tuples of arrays
            where it has parts; and the state for the next call.

        Raises:
            UserError: an argument does not have the shape the policy was made for, a number in the observation is not
                finite or above 1e18, or a mask allows nothing.
        """
        self._insist_on_masks(action_masks)
        stream = None if truth("deterministic", deterministic) else self.predict_stream
        with self.computing():
            return predicted(self.policy, obs, state, episode_start, action_masks, stream)

    def value(
        self, obs: Any, state: Any = None, episode_start: Any = None, action_masks: Any = None
    ) -> npt.NDArray[np.float32]:
        """V of one raw observation, (), or of a batch, [B], in the scale of raw rewards.

        `state`, `episode_start` and `action_masks` are what `predict` takes beside this observation. For DQN and SAC,
        whose value is that of actions, V is that of the allowed ones; for PPO and A2C masks change nothing.
        """
        self._insist_on_masks(action_masks)
        with self.computing():
            return valued(self.policy, obs, state, episode_start, action_masks)

    def _insist_on_masks(self, action_masks: Any) -> None:
        if action_masks is not None:
            undecided = self.setup is not None and self.setup.settings.action_masks == "auto"
            insist_on_masks(self.policy, undecided)
