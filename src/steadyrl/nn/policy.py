"""The policy: observation transform + network + action transform, as one thing that goes wherever the policy goes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from steadyrl import kernels
from steadyrl.nn.acting import Acting
from steadyrl.nn.architecture import Architecture
from steadyrl.nn.build import build
from steadyrl.nn.compiled import Compiler
from steadyrl.nn.description import Description
from steadyrl.nn.distributions import Distribution, Params
from steadyrl.nn.gradient import Function
from steadyrl.nn.masking import masked
from steadyrl.nn.networks import ActorCritic
from steadyrl.nn.normalizer import ObsNormalizer
from steadyrl.nn.part import looking
from steadyrl.nn.recurrent import RecurrentActorCritic
from steadyrl.nn.recurrent_acting import RecurrentActing
from steadyrl.nn.trainable import Trainable
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ObsSpec, ObsTree
from steadyrl.spaces.masks import MaskedSpec


def _sample(params: Params, noise: Tensor, distribution: Distribution) -> tuple[Tensor, Tensor]:
    """Actions in stored form and their log-probabilities."""
    actions = distribution.sample(params, noise)
    return actions, distribution.log_prob(params, actions)


def _below(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): x for name, x in state.items() if name.startswith(prefix)}


class Policy:
    """Raw observation in, environment action out.

    Observations may hold an action mask, as the leaf `MASK`: the policy chooses among what it allows.

    Attributes:
        masked: The policy learns with masks, so that what it learns from holds them.

    Args:
        obs_spec: Leaves of the observation.
        action_spec: The environment's actions.
        architecture: What makes the network.
        normalizer: Statistics of the observations, or None where they are used as they are.
        device: Where the network is.
        native: Kernels run what they know of the network; else PyTorch runs all of it.
        encoders: Classes of own encoders, by path.

    Raises:
        UserError: an own encoder is missing or is none.
    """

    def __init__(
        self,
        obs_spec: ObsSpec,
        action_spec: ActionSpec,
        architecture: Architecture,
        normalizer: ObsNormalizer | None,
        device: torch.device,
        *,
        native: bool = False,
        encoders: Mapping[str, Any] | None = None,
    ) -> None:
        self.obs_spec = obs_spec
        self.action_spec = action_spec
        self.architecture = architecture
        self.normalizer = normalizer
        self.device = device
        self.encoding = architecture.encoding(architecture.own_encoders(encoders or {}))
        net, self.distribution = build(obs_spec, action_spec, architecture, self.encoding)
        self.net = net.to(device)
        self.native = native and device.type == "cpu" and kernels.available()
        if normalizer is not None:
            normalizer.native = self.native
        self.parts = {name: Trainable(part, native=self.native) for name, part in self.net.parts().items()}
        left = [part.left_to_torch for part in self.parts.values() if self.native]
        self.notes = {text: False for text in left if text}
        self.compiler = Compiler()
        self.touched = True  # others may have changed the weights since they were last looked at
        self._sample = Function(partial(_sample, distribution=self.distribution), self, fresh=False)
        alone = isinstance(self.net, ActorCritic) and self.net.value_encoder is None
        fused = self.net if isinstance(self.net, ActorCritic) and alone and self.net.kernel is not None else None
        self._acting = None if fused is None else Acting(fused, self._sample, self.tensors)
        self.recurrent: RecurrentActing | None = None
        if isinstance(self.net, RecurrentActorCritic):
            self.recurrent = RecurrentActing(self.net, self._sample, self.tensors, device)
        self.value_scale = 1.0  # rewards were divided by this in training
        self.masked = False

    @property
    def stored_spec(self) -> ObsSpec:
        """Leaves of what is stored to learn from: the observation's, and the mask's where there are masks."""
        return MaskedSpec(self.obs_spec, self.action_spec) if self.masked else self.obs_spec

    def initialise(self, stream: Stream, *, ortho: bool = False) -> None:
        """Fill every weight from the stream: orthogonally where the network can, or as torch's `nn.Linear` does.

        Gains of layer normalisation become 1 and its shifts 0.
        """
        for layer in self.net.modules():
            if isinstance(layer, nn.LayerNorm):
                layer.reset_parameters()
        if isinstance(self.net, ActorCritic | RecurrentActorCritic):
            self.net.initialise(stream, ortho)
        else:
            self.net.initialise(stream)

    def regain(self) -> None:
        """Take over weights that were put in place of the policy's own; see `FlatParameters.regain`."""
        self.touched = True
        for part in self.parts.values():
            part.flat.regain()

    def normalise(self, obs: ObsTree) -> ObsTree:
        """Stored observations, leaves [B, ...], as the network takes them; statistics stay as they are."""
        return obs if self.normalizer is None else self.normalizer(obs)

    def tensors(self, obs: ObsTree) -> dict[str, Tensor]:
        """Arrays as tensors on the network's device."""
        return {path: torch.from_numpy(leaf).to(self.device) for path, leaf in obs.items()}

    def act(self, obs: ObsTree, noise: npt.NDArray[np.float32]) -> tuple[Tensor, Tensor, Tensor]:
        """Sample actions for normalised observations, leaves [N, ...], with noise that `distribution.draw` gave.

        Returns:
            On the CPU: actions in the stored form [N, ...], their log-probabilities [N], values [N]; valid until the
            next call.
        """
        return self._act(obs, noise) if self._acting is None else self._acting(obs, noise)

    @looking
    def _act(self, obs: ObsTree, noise: npt.NDArray[np.float32]) -> tuple[Tensor, Tensor, Tensor]:
        assert isinstance(self.net, ActorCritic)
        tensors = self.tensors(obs)
        *params, values = self.parts["net"].evaluate(tensors)
        actions, log_probs = self._sample(masked(tuple(params), tensors), torch.from_numpy(noise).to(self.device))
        return actions.cpu(), log_probs.cpu(), values.cpu()

    @looking
    def modes(self, obs: ObsTree) -> Tensor:
        """The most likely actions for normalised observations, as `ActionSpec.to_env` takes them, on the CPU."""
        return self.distribution.to_unit(self.distribution.mode(self._params(obs))).cpu()

    @looking
    def samples(self, obs: ObsTree, noise: npt.NDArray[np.float32]) -> Tensor:
        """Sampled actions for normalised observations, as `ActionSpec.to_env` takes them, on the CPU."""
        actions = self.distribution.sample(self._params(obs), torch.from_numpy(noise).to(self.device))
        return self.distribution.to_unit(actions).cpu()

    def _params(self, obs: ObsTree) -> Params:
        """Parameters of the distribution over what is allowed."""
        tensors = self.tensors(obs)
        return masked(self.net.actor(tensors), tensors)

    @looking
    def values(self, obs: ObsTree) -> Tensor:
        """V of normalised observations, in the scale of the training rewards, [B], on the CPU."""
        return self.net.critic(self.tensors(obs)).cpu()

    def to_env(self, actions: Tensor) -> npt.NDArray[Any]:
        """Stored actions [N, ...] as the environment's, [N, *shape]."""
        return self.mapped(self.distribution.to_unit(actions).numpy())

    def mapped(self, actions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """`ActionSpec.to_env`, by kernels where they know it."""
        spec = self.action_spec
        known = spec.kind == "continuous" and spec.dtype == "float32" and actions.dtype == np.float32
        if not self.native or not known:
            return spec.to_env(actions)
        from steadyrl.kernels import _native

        out = np.empty((actions.shape[0], *spec.shape), dtype=np.float32)
        _native.to_bounds(np.ascontiguousarray(actions.reshape(len(actions), -1)), *spec.bounds_map, out)
        return out

    @looking
    def predict(self, obs: ObsTree, stream: Stream | None = None) -> npt.NDArray[Any]:
        """Environment actions [B, *shape] for raw observations: the most likely, or sampled where a stream is given."""
        params = self._params(self.normalise(obs))
        return self._chosen(params, next(iter(obs.values())).shape[0], stream)

    @property
    def state_size(self) -> int:
        """Numbers that a recurrent policy remembers from step to step, S; 0 for any other."""
        return self.net.state_size if isinstance(self.net, RecurrentActorCritic) else 0

    def initial_state(self, count: int) -> npt.NDArray[np.float32]:
        """What is remembered at the start of an episode, [count, S]."""
        return np.zeros((count, self.state_size), dtype=np.float32)

    @looking
    def respond(
        self,
        obs: ObsTree,
        state: npt.NDArray[np.float32],
        starts: npt.NDArray[np.bool_],
        *,
        stream: Stream | None = None,
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32]]:
        """As `predict`, for episodes of which `state` [B, S] is remembered, except where they start [B].

        Returns:
            Environment actions [B, *shape], and what to remember then, [B, S].
        """
        if self.recurrent is None:
            return self.predict(obs, stream), state
        params, _, after = self.recurrent.step(self.normalise(obs), torch.from_numpy(state), starts)
        return self._chosen(params, len(state), stream), after.numpy()

    def _chosen(self, params: Params, batch: int, stream: Stream | None) -> npt.NDArray[Any]:
        """Environment actions [B, *shape]: the most likely, or sampled where a stream is given."""
        if stream is None:
            actions = self.distribution.mode(params)
        else:
            noise = torch.from_numpy(self.distribution.draw(stream, batch)).to(self.device)
            actions = self.distribution.sample(params, noise)
        return self.action_spec.to_env(self.distribution.to_unit(actions).cpu().numpy())

    def state_dict(self) -> dict[str, Tensor]:
        """Weights and normaliser as CPU tensors, by name."""
        state = {f"net.{name}": tensor.detach().cpu().clone() for name, tensor in self.net.state_dict().items()}
        if self.normalizer is not None:
            arrays = self.normalizer.state_dict()
            state |= {f"normalizer.{name}": torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over what `state_dict` gave; names and shapes must be the policy's."""
        self.net.load_state_dict(_below("net.", state))
        if self.normalizer is not None:
            arrays = _below("normalizer.", state)
            self.normalizer.load_state_dict({name: x.numpy() for name, x in arrays.items()})

    def sha256(self) -> str:
        """Hash of everything that decides the policy's actions: weights and normaliser."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.state_dict().items()):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
            digest.update(tensor.contiguous().numpy().tobytes())
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """Everything but the numbers, as JSON values: `from_description` makes the same policy, with fresh numbers."""
        return Description(
            self.obs_spec,
            self.action_spec,
            self.architecture,
            self.normalizer is not None,
            self.value_scale,
            self.masked,
        ).to_json()

    @classmethod
    def from_description(
        cls,
        data: dict[str, Any],
        device: torch.device,
        *,
        parameters: int | None = None,
        native: bool = False,
        encoders: Mapping[str, Any] | None = None,
    ) -> Policy:
        """The inverse of `describe`.

        Args:
            data: JSON values that `describe` gave.
            device: Where the network will be.
            parameters: How many weights there are to fill it with; where given, no other network is made.
            native: Kernels run what they know of it.
            encoders: Classes of own encoders, by path.

        Raises:
            UserError: an own encoder is missing, or not the one it was made with.
            ValueError, TypeError, KeyError: this is no description, or it is of a network of another size.
        """
        described = Description.from_json(data, parameters=parameters)
        obs_spec, own = described.with_own(encoders)
        policy = cls(
            obs_spec,
            described.action_spec,
            described.architecture,
            described.normalizer(),
            device,
            native=native,
            encoders=own,
        )
        policy.value_scale, policy.masked = described.value_scale, described.masked
        return policy
