"""What an on-policy algorithm has seen since its last update: `[T, N]`, allocated once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steadyrl.data.targets import gae, next_values
from steadyrl.spaces import ActionSpec, ObsSpec, ObsTree

TensorTree = dict[str, Tensor]


class RolloutBatch(NamedTuple):
    """Valid transitions, flat: [B, ...]."""

    obs: TensorTree
    actions: Tensor  # the stored form of the distribution
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor

    def take(self, index: Tensor) -> RolloutBatch:
        """The transitions at these positions, [len(index), ...]."""
        obs = {path: leaf[index] for path, leaf in self.obs.items()}
        return self._with(obs, [part[index] for part in self.flat()])

    def room(self, size: int) -> tuple[RolloutBatch, list[Tensor]]:
        """Memory for so many transitions: as a batch, and part by part in the same order."""
        parts = [torch.empty((size, *p.shape[1:]), dtype=p.dtype) for p in (*self.obs.values(), *self.flat())]
        return self._with(dict(zip(self.obs, parts, strict=False)), parts[len(self.obs) :]), parts

    def to(self, device: torch.device) -> RolloutBatch:
        """The same transitions on this device."""
        obs = {path: leaf.to(device) for path, leaf in self.obs.items()}
        return self._with(obs, [part.to(device) for part in self.flat()])

    def flat(self) -> tuple[Tensor, ...]:
        """All parts but the observations."""
        return (self.actions, self.log_probs, self.values, self.advantages, self.returns)

    @staticmethod
    def _with(obs: TensorTree, flat: list[Tensor]) -> RolloutBatch:
        actions, log_probs, values, advantages, returns = flat
        return RolloutBatch(obs, actions, log_probs, values, advantages, returns)


class Fetcher:
    """Takes minibatches out of a batch; kernels take them into memory that is used again, one of a size at a time.

    Args:
        batch: All transitions.
        native: Kernels do it.
    """

    def __init__(self, batch: RolloutBatch, *, native: bool) -> None:
        self._batch = batch
        self._native = native
        self._parts = [*batch.obs.values(), *batch.flat()]
        self._rooms: dict[int, tuple[RolloutBatch, list[Tensor]]] = {}

    def __call__(self, index: npt.NDArray[np.int64]) -> RolloutBatch:
        """The transitions at these positions, [len(index), ...]; valid until the next call."""
        if not self._native:
            return self._batch.take(torch.from_numpy(index).to(self._batch.log_probs.device))
        from steadyrl.kernels import _native

        room = self._rooms.get(len(index))
        if room is None:
            room = self._rooms[len(index)] = self._batch.room(len(index))
        _native.gather(index, self._parts, room[1])
        return room[0]


def native_gae(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    done: Tensor,
    valid: Tensor,
    gamma: float,
    gae_lambda: float,
) -> tuple[Tensor, Tensor]:
    """`targets.gae` by the kernels."""
    from steadyrl.kernels import _native

    advantages, returns = torch.empty_like(rewards), torch.empty_like(rewards)
    given = (rewards, values, next_values, terminated, done, valid)
    _native.gae(*given, gamma, gae_lambda, advantages, returns)
    return advantages, returns


class Rollout:
    """Transitions of N environments over at most T steps.

    Observations and actions are kept as the policy saw and made them (normalised, unclipped), so that their
    log-probability can be computed again.

    Args:
        n_steps: T.
        num_envs: N.
        obs_spec: Leaves of the observation.
        action_spec: Actions of the policy.
        native: Kernels compute the advantages.
    """

    def __init__(
        self, n_steps: int, num_envs: int, obs_spec: ObsSpec, action_spec: ActionSpec, *, native: bool = False
    ) -> None:
        self._gae = native_gae if native else gae
        shape = (n_steps, num_envs)
        width = () if action_spec.kind == "discrete" else (action_spec.size,)
        self.obs = {path: torch.from_numpy(leaf) for path, leaf in obs_spec.zeros(*shape).items()}
        self.actions = torch.from_numpy(np.zeros((*shape, *width), dtype=action_spec.stored_dtype))
        self.log_probs = torch.zeros(shape, dtype=torch.float32)
        self.values = torch.zeros(shape, dtype=torch.float32)
        self.final_values = torch.zeros(shape, dtype=torch.float32)
        self.rewards = torch.zeros(shape, dtype=torch.float32)
        self.terminated = torch.zeros(shape, dtype=torch.bool)
        self.truncated = torch.zeros(shape, dtype=torch.bool)
        self.valid = torch.zeros(shape, dtype=torch.bool)
        self.n_steps = n_steps
        self.length = 0
        self._share()

    def _share(self) -> None:
        """The same memory for `add`: NumPy writes a small row in a tenth of the time that torch takes."""
        self._written = {name: tensor.numpy() for name, tensor in self._tensors().items()}

    def __getstate__(self) -> dict[str, Any]:
        """What a copy has of its own; it shares anew."""
        return {name: value for name, value in self.__dict__.items() if name != "_written"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """See `__getstate__`."""
        self.__dict__.update(state)
        self._share()

    @property
    def full(self) -> bool:
        """Whether T steps are in."""
        return self.length == self.n_steps

    def add(
        self,
        obs: ObsTree,
        actions: Tensor,
        log_probs: Tensor,
        values: Tensor,
        rewards: npt.NDArray[np.float32],
        terminated: npt.NDArray[np.bool_],
        truncated: npt.NDArray[np.bool_],
        valid: npt.NDArray[np.bool_],
    ) -> None:
        """Store one vector step, each argument [N, ...]."""
        t, room = self.length, self._written
        for path, leaf in obs.items():
            room[f"obs/{path}"][t] = leaf
        room["actions"][t] = actions.numpy()
        room["log_probs"][t] = log_probs.numpy()
        room["values"][t] = values.numpy()
        room["final_values"][t] = 0.0  # until `set_final_values`: no trace of an earlier rollout stays
        room["rewards"][t] = rewards
        room["terminated"][t] = terminated
        room["truncated"][t] = truncated
        room["valid"][t] = valid
        self.length = t + 1

    def set_final_values(self, rows: npt.NDArray[np.bool_], values: Tensor) -> None:
        """V of the true final observation of the newest step, for the environments in `rows`, [rows.sum()]."""
        self.final_values[self.length - 1][torch.from_numpy(rows)] = values

    def drop_unfinished(self, rows: npt.NDArray[np.bool_]) -> None:
        """Let no step count of the episodes that are unfinished in these environments, [N].

        Steps of theirs in an earlier rollout were learnt from before.
        """
        done = (self.terminated | self.truncated)[: self.length].numpy()
        # Done rows at or after each row, [T, N]: a row without one belongs to the unfinished episode.
        to_come = np.logical_or.accumulate(done[::-1])[::-1]
        self._written["valid"][: self.length] &= to_come | ~rows

    def batch(self, last_values: Tensor, gamma: float, gae_lambda: float) -> RolloutBatch:
        """All valid transitions with their advantages and returns, flat in the order of time.

        Args:
            last_values: V of the observations after the newest step, [N].
            gamma: Discount factor.
            gae_lambda: Trace decay.
        """
        whole = self.whole(last_values, gamma, gae_lambda)
        index = self.valid[: self.length].flatten().nonzero().squeeze(1)
        return whole if len(index) == len(whole.log_probs) else whole.take(index)

    def whole(self, last_values: Tensor, gamma: float, gae_lambda: float) -> RolloutBatch:
        """As `batch`, with the rows that do not count, [length * N]: their advantages mean nothing."""
        used = slice(0, self.length)
        values, truncated, terminated = self.values[used], self.truncated[used], self.terminated[used]
        successors = next_values(values, last_values, self.final_values[used], truncated)
        advantages, returns = self._gae(
            self.rewards[used],
            values,
            successors,
            terminated,
            terminated | truncated,
            self.valid[used],
            gamma,
            gae_lambda,
        )
        return RolloutBatch(
            {path: leaf[used].flatten(0, 1) for path, leaf in self.obs.items()},
            self.actions[used].flatten(0, 1),
            self.log_probs[used].flatten(),
            values.flatten(),
            advantages.flatten(),
            returns.flatten(),
        )

    def outputs(self) -> dict[str, npt.NDArray[np.float32]]:
        """What the policy said so far, [length, N], by the name of it; the rollout's own memory."""
        names = {"value": "values", "log-probability": "log_probs", "value of the final observation": "final_values"}
        return {said: self._written[name][: self.length] for said, name in names.items()}

    def clear(self) -> None:
        """Forget everything, keep the room."""
        self.length = 0

    def state_dict(self) -> dict[str, Tensor]:
        """The steps in it, as tensors [length, N, ...]."""
        return {name: tensor[: self.length].clone() for name, tensor in self._tensors().items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from what `state_dict` gave.

        Raises:
            ValueError: it is of another size, or of other spaces; nothing is changed.
        """
        own, length = self._tensors(), len(state["rewards"])
        # Pixels were kept as float32 before they were kept as uint8.
        old = {n for n, x in own.items() if x.dtype == torch.uint8 and n in state and state[n].dtype == torch.float32}
        state = {name: tensor.to(torch.uint8) if name in old else tensor for name, tensor in state.items()}
        if state.keys() != own.keys() or length > self.n_steps:
            raise ValueError(f"the rollout has {length} steps of {self.n_steps}, or other arrays than this one")
        for name, tensor in own.items():
            if (state[name].dtype, state[name].shape) != (tensor.dtype, (length, *tensor.shape[1:])):
                raise ValueError(f"the rollout's '{name}' is {state[name].dtype} of shape {tuple(state[name].shape)}")
        self.length = length
        for name, tensor in own.items():
            tensor[:length] = state[name]

    def _tensors(self) -> dict[str, Tensor]:
        names = ("actions", "log_probs", "values", "final_values", "rewards", "terminated", "truncated", "valid")
        return {name: getattr(self, name) for name in names} | {f"obs/{path}": leaf for path, leaf in self.obs.items()}
