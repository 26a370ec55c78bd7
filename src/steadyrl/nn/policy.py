"""The policy: observation transform + network + action transform, as one thing that goes wherever the policy goes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.utils._device  # which `with torch.device` would import at its first use, while a file is loaded
from torch import Tensor, nn

from steadyrl import kernels
from steadyrl.errors import UserError
from steadyrl.nn.acting import Acting
from steadyrl.nn.architecture import Architecture
from steadyrl.nn.build import build
from steadyrl.nn.compiled import Compiler
from steadyrl.nn.distributions import Distribution, Params
from steadyrl.nn.gradient import Function
from steadyrl.nn.masking import masked
from steadyrl.nn.networks import ActorCritic
from steadyrl.nn.normalizer import ObsNormalizer
from steadyrl.nn.part import looking
from steadyrl.nn.recurrent import RecurrentActorCritic
from steadyrl.nn.trainable import Trainable
from steadyrl.seeding import Stream
from steadyrl.spaces import ActionSpec, ObsSpec, ObsTree
from steadyrl.spaces.masks import MaskedSpec, mask_width
from steadyrl.spaces.reading import with_converters

_DESCRIPTION = {"obs", "action", "architecture", "normalize_obs", "value_scale"}


def _sample(params: Params, noise: Tensor, distribution: Distribution) -> tuple[Tensor, Tensor]:
    """Actions in stored form and their log-probabilities."""
    actions = distribution.sample(params, noise)
    return actions, distribution.log_prob(params, actions)


def _by_torch(part: Trainable) -> str:
    """What of a network's part kernels do not run, in words."""
    name = type(part.module).__name__
    if part.encodes_by_torch:
        return f"the encoder of the {name}, which has weights: images, embeddings, sequences"
    if isinstance(part.module, RecurrentActorCritic):
        return "the recurrent networks, which they lack"
    return f"the {name}, parts of which they lack, such as dueling heads and gSDE"


def own_encoders(architecture: Architecture, given: Mapping[str, Any]) -> dict[str, Any]:
    """The classes of the own encoders that an architecture names, by path.

    Raises:
        UserError: one is missing, or one is given that it does not name.
    """
    for path, name in architecture.encoders.items():
        if path not in given:
            raise UserError(
                f"The policy has an encoder of its own for {path!r}, the class {name}, which no file holds.",
                remedy=f"Pass the class: encoders={{{path!r}: {name.rpartition('.')[2]}}}.",
                code="no-encoder",
            )
    for path in given:
        if path not in architecture.encoders:
            raise UserError(
                f"encoders has {path!r}, but the policy was made without an encoder of its own there.",
                remedy=f"Leave it out; it has some for {', '.join(map(repr, architecture.encoders)) or 'nothing'}.",
                code="bad-encoder",
            )
    return dict(given)


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
        self.encoding = architecture.encoding(own_encoders(architecture, encoders or {}))
        net, self.distribution = build(obs_spec, action_spec, architecture, self.encoding)
        self.net = net.to(device)
        self.native = native and device.type == "cpu" and kernels.available()
        if normalizer is not None:
            normalizer.native = self.native
        self.parts = {name: Trainable(part, native=self.native) for name, part in self.net.parts().items()}
        by_torch = [part for part in self.parts.values() if self.native and not part.on_kernels]
        self.notes = {_by_torch(part): False for part in by_torch}
        self.compiler = Compiler()
        self.touched = True  # others may have changed the weights since they were last looked at
        self._sample = Function(partial(_sample, distribution=self.distribution), self, fresh=False)
        alone = isinstance(self.net, ActorCritic) and self.net.value_encoder is None
        fused = self.net if isinstance(self.net, ActorCritic) and alone and self.net.kernel is not None else None
        self._acting = None if fused is None else Acting(fused, self._sample, self.tensors)
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
        tree = self.normalise(obs)
        if stream is None:
            return self.action_spec.to_env(self.modes(tree).numpy())
        batch = next(iter(tree.values())).shape[0]
        return self.action_spec.to_env(self.samples(tree, self.distribution.draw(stream, batch)).numpy())

    @property
    def state_size(self) -> int:
        """Numbers that a recurrent policy remembers from step to step, S; 0 for any other."""
        return self.net.state_size if isinstance(self.net, RecurrentActorCritic) else 0

    def initial_state(self, count: int) -> npt.NDArray[np.float32]:
        """What is remembered at the start of an episode, [count, S]."""
        return np.zeros((count, self.state_size), dtype=np.float32)

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
        if not self.state_size:
            return self.predict(obs, stream), state
        params, _, after = self._step(self.normalise(obs), torch.from_numpy(state), starts)
        if stream is None:
            actions = self.distribution.mode(params)
        else:
            noise = self.distribution.draw(stream, len(state))
            actions = self.distribution.sample(params, torch.from_numpy(noise).to(self.device))
        return self.action_spec.to_env(self.distribution.to_unit(actions).cpu().numpy()), after.numpy()

    def act_on(
        self, obs: ObsTree, noise: npt.NDArray[np.float32], state: Tensor, starts: npt.NDArray[np.bool_]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """As `act`, for a recurrent policy; also what is remembered then, [N, S].

        Args:
            obs: Normalised, leaves [N, ...].
            noise: As for `act`.
            state: What is remembered, [N, S].
            starts: Where an episode begins, so that nothing is, [N].
        """
        params, values, after = self._step(obs, state, starts)
        actions, log_probs = self._sample(params, torch.from_numpy(noise).to(self.device))
        return actions.cpu(), log_probs.cpu(), values.cpu(), after

    def values_on(self, obs: ObsTree, state: Tensor, starts: npt.NDArray[np.bool_]) -> Tensor:
        """As `values`, for a recurrent policy that remembers `state` [B, S], except where episodes start [B]."""
        return self._step(obs, state, starts)[1].cpu()

    @looking
    def _step(self, obs: ObsTree, state: Tensor, starts: npt.NDArray[np.bool_]) -> tuple[Params, Tensor, Tensor]:
        """Parameters of the distribution over what is allowed, values, and what is remembered then, on the CPU."""
        assert isinstance(self.net, RecurrentActorCritic)
        tensors = self.tensors(obs)
        begins = torch.from_numpy(starts).to(self.device)
        params, values, after = self.net.step(tensors, state.to(self.device), begins)
        return masked(params, tensors), values, after.cpu()

    def state_dict(self) -> dict[str, Tensor]:
        """Weights and normaliser as CPU tensors, by name."""
        state = {f"net.{name}": tensor.detach().cpu().clone() for name, tensor in self.net.state_dict().items()}
        if self.normalizer is not None:
            arrays = self.normalizer.state_dict()
            state |= {f"normalizer.{name}": torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over what `state_dict` gave; names and shapes must be the policy's."""
        net = {name.removeprefix("net."): x for name, x in state.items() if name.startswith("net.")}
        self.net.load_state_dict(net)
        if self.normalizer is not None:
            arrays = {
                name.removeprefix("normalizer."): x.numpy()
                for name, x in state.items()
                if name.startswith("normalizer.")
            }
            self.normalizer.load_state_dict(arrays)

    def sha256(self) -> str:
        """Hash of everything that decides the policy's actions: weights and normaliser."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.state_dict().items()):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
            digest.update(tensor.contiguous().numpy().tobytes())
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """Everything but the numbers, as JSON values: `from_description` makes the same policy, with fresh numbers."""
        return {
            "obs": self.obs_spec.to_json(),
            "action": self.action_spec.to_json(),
            "architecture": asdict(self.architecture),
            "normalize_obs": self.normalizer is not None,
            "value_scale": self.value_scale,
            **({"action_masks": True} if self.masked else {}),
        }

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
        made_of, own = _made_of(data, parameters, encoders)
        policy = cls(*made_of, device, native=native, encoders=own)
        policy.value_scale, policy.masked = data["value_scale"], data.get("action_masks", False)
        return policy

    @staticmethod
    def forms(
        data: dict[str, Any], *, parameters: int, encoders: Mapping[str, Any] | None = None
    ) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        """Shape and type of each tensor of the `state_dict` of the policy of a description, which is not made for it.

        Args:
            data: As for `from_description`, and the same errors are raised.
            parameters: How many weights there are.
            encoders: Classes of own encoders, by path.
        """
        (obs_spec, action_spec, architecture, normalizer), own = _made_of(data, parameters, encoders)
        with torch.device("meta"):
            net, _ = build(obs_spec, action_spec, architecture, architecture.encoding(own))
        found = {f"net.{name}": (tuple(tensor.shape), tensor.dtype) for name, tensor in net.state_dict().items()}
        for name, array in ({} if normalizer is None else normalizer.state_dict()).items():
            found[f"normalizer.{name}"] = (array.shape, torch.float64)
        return found


_Made = tuple[ObsSpec, ActionSpec, Architecture, ObsNormalizer | None]


def _made_of(
    data: dict[str, Any], parameters: int | None, encoders: Mapping[str, Any] | None
) -> tuple[_Made, dict[str, Any]]:
    """What `Policy` takes, from a description, and the classes of own encoders."""
    scale, with_masks = data["value_scale"], data.get("action_masks", False)
    if (
        data.keys() - {"action_masks"} != _DESCRIPTION
        or type(with_masks) is not bool
        or type(data["normalize_obs"]) is not bool
    ):
        raise ValueError(f"a policy is described by exactly {sorted(_DESCRIPTION)}")
    if type(scale) is not float or not 0.0 < scale < math.inf:
        raise ValueError(f"value_scale is {scale!r}, not a number above 0")
    obs_spec, action_spec = ObsSpec.from_json(data["obs"]), ActionSpec.from_json(data["action"])
    if with_masks and not mask_width(action_spec):
        raise ValueError(f"there are no action masks for {action_spec.kind} actions")
    architecture = Architecture.from_json(data["architecture"])
    wanted = architecture.parameters(obs_spec, action_spec)
    if parameters not in (None, wanted) and not architecture.encoders:
        raise ValueError(f"the network has {wanted} weights, but there are {parameters}")
    own = own_encoders(architecture, encoders or {})
    normalizer = ObsNormalizer(obs_spec) if data["normalize_obs"] else None
    return (with_converters(obs_spec, own), action_spec, architecture, normalizer), own
