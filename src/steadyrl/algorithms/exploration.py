"""Where the noise of an acting policy comes from: one stream, one owner."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steadyrl.nn.distributions import Distribution
from steadyrl.seeding import Stream


class Exploration:
    """Noise for each vector step.

    Ordinary distributions draw anew each step. State-dependent exploration keeps its matrices for `sample_freq` steps
    (arXiv:2005.05719), and from one rollout to the next draws anew.

    Args:
        distribution: Whose noise is drawn.
        stream: The owner of the randomness.
        num_envs: N.
        sample_freq: Steps between two draws of a state-dependent distribution; -1 draws once a rollout.
    """

    def __init__(self, distribution: Distribution, stream: Stream, num_envs: int, sample_freq: int) -> None:
        self._distribution = distribution
        self._stream = stream
        self._num_envs = num_envs
        self._sample_freq = sample_freq
        self._kept: npt.NDArray[np.float32] | None = None

    def draw(self, rollout_step: int) -> npt.NDArray[np.float32]:
        """Noise for step `rollout_step` of the present rollout, [N, ...]."""
        if not self._distribution.state_dependent:
            return self._distribution.draw(self._stream, self._num_envs)
        due = rollout_step == 0 or (self._sample_freq > 0 and rollout_step % self._sample_freq == 0)
        if due or self._kept is None:
            self._kept = self._distribution.draw(self._stream, self._num_envs)
        return self._kept

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly."""
        return {"stream": self._stream.state_dict(), "kept": None if self._kept is None else self._kept.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self._stream.load_state_dict(state["stream"])
        self._kept = state["kept"]
