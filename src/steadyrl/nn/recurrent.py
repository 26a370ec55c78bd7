"""Policy and value network that remember: an LSTM or GRU between the features and the hidden layers."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from steadyrl.nn.distributions import Distribution, Params
from steadyrl.nn.encoders import PLAIN, Encoder, Obs, init_part
from steadyrl.nn.encoding import Encoding
from steadyrl.nn.heads import make_head
from steadyrl.nn.init import BlankLinear, orthogonal
from steadyrl.nn.networks import ACTIVATIONS, NetArch, init_actor_critic, mlp, trunk_widths
from steadyrl.nn.part import Part
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ObsSpec

GATES = {"lstm": 4, "gru": 3}


class Pieces(Protocol):
    """What `data.sequences.Sequences` is."""

    @property
    def obs(self) -> dict[str, Tensor]:
        """Leaves [T * n, ...], in the order of time."""
        ...

    @property
    def states(self) -> Tensor:
        """What was remembered before the first step, [n, S]."""
        ...

    @property
    def pieces(self) -> Tensor:
        """The row of each step of each piece, [L, K]."""
        ...

    @property
    def begins(self) -> Tensor:
        """The environment whose state a piece begins with, [K]; n for none."""
        ...

    @property
    def places(self) -> Tensor:
        """Where among [L * K] the rows are that count, [B]."""
        ...


class Memory(nn.Module):
    """One layer of an LSTM (Hochreiter and Schmidhuber 1997) or GRU (arXiv:1406.1078), with PyTorch's formulas.

    Its parameters are read at each call, not kept in lists as `nn.LSTM` does: they are views of a flat buffer, and
    may be put back there. Weights are zero until `initialise`.

    Args:
        kind: `lstm` or `gru`.
        features: Width of what goes in, F.
        size: Width of what comes out, H.
    """

    def __init__(self, kind: str, features: int, size: int) -> None:
        super().__init__()
        self.kind, self.size = kind, size
        rows = GATES[kind] * size
        self.weight_ih = nn.Parameter(torch.zeros(rows, features, dtype=torch.float32))
        self.weight_hh = nn.Parameter(torch.zeros(rows, size, dtype=torch.float32))
        self.bias_ih = nn.Parameter(torch.zeros(rows, dtype=torch.float32))
        self.bias_hh = nn.Parameter(torch.zeros(rows, dtype=torch.float32))

    @property
    def state_size(self) -> int:
        """Numbers that are remembered: the output, and for an LSTM its cells."""
        return self.size * (2 if self.kind == "lstm" else 1)

    def initialise(self, stream: Stream, ortho: bool) -> None:
        """Orthogonal matrices for each gate and biases 0, or all uniform in [-1, 1) / sqrt(H), as torch does."""
        bound = np.float32(1.0 / math.sqrt(self.size))
        with torch.no_grad():
            for parameter in self.parameters():
                if not ortho:
                    drawn = (2 * stream.uniform(tuple(parameter.shape)) - 1) * bound
                elif parameter.dim() == 1:
                    drawn = np.zeros(tuple(parameter.shape), dtype=np.float32)
                else:
                    each = [orthogonal(self.size, parameter.shape[1], stream) for _ in range(GATES[self.kind])]
                    drawn = np.concatenate(each).astype(np.float32)
                parameter.copy_(torch.from_numpy(np.ascontiguousarray(drawn)))

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs [L, K, H] for x [L, K, F], and the state after the last step, [K, S], from the one before."""
        weights: list[Tensor] = [self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh]
        rest = (True, 1, 0.0, torch.is_grad_enabled(), False, False)
        hidden = [part.unsqueeze(0).contiguous() for part in torch.split(state, self.size, dim=-1)]
        if self.kind == "gru":
            out, after = torch.gru(x, hidden[0], weights, *rest)
            return out, after.squeeze(0)
        out, h, c = torch.lstm(x, hidden, weights, *rest)
        return out, torch.cat([h.squeeze(0), c.squeeze(0)], dim=-1)


class RecurrentActorCritic(Part):
    """Features -> memory -> hidden layers -> head, for the policy and for the values.

    Each has a memory of its own, as in sb3-contrib's RecurrentPPO, or they share one, which both losses train then.
    What is remembered is one row of numbers, [S]: the policy's memory, then the values' own.

    Args:
        obs_spec: The observation space.
        distribution: The distribution that the policy's head is for.
        action_spec: The action space.
        net_arch: Hidden widths behind the memory, as for `ActorCritic`.
        activation_fn: A key of `ACTIVATIONS`.
        log_std_init: Initial log standard deviation of continuous actions.
        layer_norm: Hidden layers are normalised before their activation.
        kind: `lstm` or `gru`.
        size: Width of a memory.
        shared: There is one memory, behind one encoder.
        encoding: How leaves become features.
    """

    def __init__(
        self,
        obs_spec: ObsSpec,
        distribution: Distribution,
        action_spec: ActionSpec,
        *,
        net_arch: NetArch,
        activation_fn: str,
        log_std_init: float,
        layer_norm: bool,
        kind: str,
        size: int,
        shared: bool,
        encoding: Encoding = PLAIN,
    ) -> None:
        super().__init__()
        pi, vf = trunk_widths(net_arch)
        self.encoder = Encoder(obs_spec, encoding)
        apart = self.encoder.learns and not (encoding.shared or shared)
        self.value_encoder = Encoder(obs_spec, encoding) if apart else None
        self.policy_memory = Memory(kind, self.encoder.features, size)
        self.value_memory = None if shared else Memory(kind, self.encoder.features, size)
        self.policy_trunk = mlp(size, pi, ACTIVATIONS[activation_fn], layer_norm)
        self.policy_head = make_head(distribution, pi[-1] if pi else size, action_spec, log_std_init)
        self.value_trunk = mlp(size, vf, ACTIVATIONS[activation_fn], layer_norm)
        self.value_head = BlankLinear(vf[-1] if vf else size, 1)

    @property
    def state_size(self) -> int:
        """S."""
        own = 0 if self.value_memory is None else self.value_memory.state_size
        return self.policy_memory.state_size + own

    def initialise(self, stream: Stream, ortho: bool) -> None:
        """Fill every weight from the stream: orthogonally, or as torch does."""
        self.policy_memory.initialise(stream, ortho)
        if self.value_memory is not None:
            self.value_memory.initialise(stream, ortho)
        if not ortho:
            init_part(self, stream)
            return
        encoders = [encoder for encoder in (self.encoder, self.value_encoder) if encoder is not None]
        init_actor_critic(encoders, (self.policy_trunk, self.policy_head), (self.value_trunk, self.value_head), stream)

    def parts(self) -> dict[str, Part]:
        """What is trained by a loss of its own: the whole."""
        return {"net": self}

    def forward(self, sequences: Pieces) -> tuple[Params, Tensor]:
        """Parameters of the action distribution and values of the rows that count, [B]."""
        features = self._features(sequences.obs)
        rows = sequences.pieces.flatten()
        x, y = (part[rows].view(*sequences.pieces.shape, part.shape[1]) for part in features)
        known = torch.cat([sequences.states, sequences.states.new_zeros(1, self.state_size)])
        latent, values, _ = self._remember(x, y, known[sequences.begins])
        policy, value = (part.flatten(0, 1)[sequences.places] for part in (latent, values))
        return self._params(policy), self._values(value)

    def step(self, obs: Obs, state: Tensor, starts: Tensor) -> tuple[Params, Tensor, Tensor]:
        """One step of B episodes.

        Args:
            obs: Leaves [B, ...].
            state: What is remembered, [B, S].
            starts: Where an episode begins, so that nothing is, bool [B].

        Returns:
            Parameters of the action distribution, values [B], and what is remembered then, [B, S].
        """
        x, y = (part.unsqueeze(0) for part in self._features(obs))
        policy, value, after = self._remember(x, y, state.masked_fill(starts.unsqueeze(-1), 0.0))
        return self._params(policy.squeeze(0)), self._values(value.squeeze(0)), after

    def actor(self, obs: Obs) -> Params:
        """Parameters of the action distribution at the start of an episode."""
        return self.step(obs, *self._nothing(obs))[0]

    def critic(self, obs: Obs) -> Tensor:
        """Values [B] at the start of an episode."""
        return self.step(obs, *self._nothing(obs))[1]

    def _features(self, obs: Obs) -> tuple[Tensor, Tensor]:
        """What the policy's memory is given and what the values' is, [B, F] each."""
        features = self.encoder(obs)
        return features, features if self.value_encoder is None else self.value_encoder(obs)

    def _remember(self, x: Tensor, y: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the policy's memory makes of x [L, K, F] and the values' of y, and their state after it."""
        if self.value_memory is None:
            out, after = self.policy_memory(x, state)
            return out, out, after
        own = self.policy_memory.state_size
        policy, policy_after = self.policy_memory(x, state[:, :own])
        value, value_after = self.value_memory(y, state[:, own:])
        return policy, value, torch.cat([policy_after, value_after], dim=-1)

    def _nothing(self, obs: Obs) -> tuple[Tensor, Tensor]:
        some = next(iter(obs.values()))
        rows = some.shape[0]
        return some.new_zeros(rows, self.state_size, dtype=torch.float32), some.new_ones(rows, dtype=torch.bool)

    def _params(self, latent: Tensor) -> Params:
        params: Params = self.policy_head(self.policy_trunk(latent))
        return params

    def _values(self, latent: Tensor) -> Tensor:
        values: Tensor = self.value_head(self.value_trunk(latent)).squeeze(-1)
        return values
