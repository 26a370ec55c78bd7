"""What a policy remembers from one vector step to the next, for the on-policy loop: an LSTM's state, or nothing."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steadyrl.data.rollout import Rollout, RolloutBatch
from steadyrl.data.sequences import SequenceBatch
from steadyrl.nn.policy import Policy
from steadyrl.spaces import ObsTree

Bools = npt.NDArray[np.bool_]


class Recall(Protocol):
    """How the loop asks the policy."""

    def act(self, obs: ObsTree, noise: npt.NDArray[np.float32], t: int) -> tuple[Tensor, Tensor, Tensor]:
        """As `Policy.act`, in step `t` of the rollout."""
        ...

    def final_values(self, obs: ObsTree, rows: Bools) -> Tensor:
        """V of normalised final observations of these environments, leaves [rows.sum(), ...], [rows.sum()]."""
        ...

    def last_values(self, obs: ObsTree) -> Tensor:
        """V of the normalised observations to act on next, [N]."""
        ...

    def stepped(self, starts: Bools) -> None:
        """The environments were stepped; where the next observation is the first of an episode, [N]."""
        ...

    def batch(
        self, rollout: Rollout, last_values: Tensor, gamma: float, gae_lambda: float
    ) -> RolloutBatch | SequenceBatch:
        """The rollout as the algorithm takes it."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What of the loop's state is this one's, by name; empty where there is nothing."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a loop's state."""
        ...


def recall_of(policy: Policy, n_steps: int, num_envs: int) -> Recall:
    """How a policy is asked, which remembers or does not."""
    return Memoryless(policy) if policy.recurrent is None else Remembering(policy, n_steps, num_envs)


class Memoryless:
    """A policy that sees all it needs.

    Args:
        policy: The policy.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def act(self, obs: ObsTree, noise: npt.NDArray[np.float32], t: int) -> tuple[Tensor, Tensor, Tensor]:
        """As `Policy.act`."""
        return self._policy.act(obs, noise)

    def final_values(self, obs: ObsTree, rows: Bools) -> Tensor:
        """As `Policy.values`."""
        return self._policy.values(obs)

    def last_values(self, obs: ObsTree) -> Tensor:
        """As `Policy.values`."""
        return self._policy.values(obs)

    def stepped(self, starts: Bools) -> None:
        """Nothing is kept from one step to the next."""

    def batch(self, rollout: Rollout, last_values: Tensor, gamma: float, gae_lambda: float) -> RolloutBatch:
        """All transitions, flat."""
        return rollout.batch(last_values, gamma, gae_lambda)

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """There is nothing."""


class Remembering:
    """A recurrent policy.

    Args:
        policy: The policy.
        n_steps: Steps of a rollout, T.
        num_envs: N.
    """

    def __init__(self, policy: Policy, n_steps: int, num_envs: int) -> None:
        assert policy.recurrent is not None
        self._policy = policy.recurrent
        self._state = torch.from_numpy(policy.initial_state(num_envs))
        self._first = self._state.clone()  # before the rollout's first step
        self._begins = np.ones(num_envs, dtype=np.bool_)  # where the next observation is the first of an episode
        self._starts = np.zeros((n_steps, num_envs), dtype=np.bool_)  # the same for each step of the rollout

    def act(self, obs: ObsTree, noise: npt.NDArray[np.float32], t: int) -> tuple[Tensor, Tensor, Tensor]:
        """As `Policy.act`, with what is remembered."""
        if t == 0:
            self._first = self._state
        self._starts[t] = self._begins
        *acted, self._state = self._policy.act(obs, noise, self._state, self._begins)
        actions, log_probs, values = acted
        return actions, log_probs, values

    def final_values(self, obs: ObsTree, rows: Bools) -> Tensor:
        """V from what was remembered before the episode ended: the state is set back only at the next step."""
        return self._policy.values(obs, self._state[torch.from_numpy(rows)], np.zeros(int(rows.sum()), np.bool_))

    def last_values(self, obs: ObsTree) -> Tensor:
        """V of the observations to act on next; the state stays as it is."""
        return self._policy.values(obs, self._state, self._begins)

    def stepped(self, starts: Bools) -> None:
        """The next step begins there with nothing remembered."""
        self._begins = starts

    def batch(self, rollout: Rollout, last_values: Tensor, gamma: float, gae_lambda: float) -> SequenceBatch:
        """All transitions as sequences of whole environments."""
        used = slice(0, rollout.length)
        whole, valid = rollout.whole(last_values, gamma, gae_lambda), rollout.valid[used].numpy().copy()
        return SequenceBatch(whole, valid, self._starts[used].copy(), self._first)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly."""
        return {
            "memory": {
                "state": self._state.clone(),
                "first": self._first.clone(),
                "begins": self._begins.copy(),
                "starts": self._starts.copy(),
            }
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        memory = state["memory"]
        self._state, self._first = memory["state"].clone(), memory["first"].clone()
        self._begins, self._starts = np.array(memory["begins"]), np.array(memory["starts"])
