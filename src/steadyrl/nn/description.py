"""A policy but for its numbers, as the JSON values that a bundle holds; checked when they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.utils._device  # which `with torch.device` would import at its first use, while a file is loaded

from steadyrl.nn.architecture import Architecture
from steadyrl.nn.build import build
from steadyrl.nn.normalizer import ObsNormalizer
from steadyrl.spaces import ActionSpec, ObsSpec
from steadyrl.spaces.masks import mask_width
from steadyrl.spaces.reading import with_converters

_KEYS = {"obs", "action", "architecture", "normalize_obs", "value_scale"}
_OPTIONAL = {"action_masks"}


@dataclass(frozen=True)
class Description:
    """What makes a policy, its numbers aside.

    Attributes:
        obs_spec: Leaves of the observation.
        action_spec: The environment's actions.
        architecture: What makes the network.
        normalize_obs: Observations are normalised.
        value_scale: Rewards were divided by this in training.
        masked: The policy learns with action masks.
    """

    obs_spec: ObsSpec
    action_spec: ActionSpec
    architecture: Architecture
    normalize_obs: bool
    value_scale: float
    masked: bool

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "obs": self.obs_spec.to_json(),
            "action": self.action_spec.to_json(),
            "architecture": asdict(self.architecture),
            "normalize_obs": self.normalize_obs,
            "value_scale": self.value_scale,
            **({"action_masks": True} if self.masked else {}),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any], *, parameters: int | None = None) -> Description:
        """The inverse of `to_json`.

        Args:
            data: JSON values that `to_json` gave.
            parameters: How many weights there are; where given, a network of another size is refused.

        Raises:
            ValueError, TypeError, KeyError: this is no description, or it is of a network of another size.
        """
        scale, masked = data["value_scale"], data.get("action_masks", False)
        if data.keys() - _OPTIONAL != _KEYS or type(masked) is not bool or type(data["normalize_obs"]) is not bool:
            raise ValueError(f"a policy is described by exactly {sorted(_KEYS)}")
        if type(scale) is not float or not 0.0 < scale < math.inf:
            raise ValueError(f"value_scale is {scale!r}, not a number above 0")
        obs_spec, action_spec = ObsSpec.from_json(data["obs"]), ActionSpec.from_json(data["action"])
        if masked and not mask_width(action_spec):
            raise ValueError(f"there are no action masks for {action_spec.kind} actions")
        architecture = Architecture.from_json(data["architecture"])
        wanted = architecture.parameters(obs_spec, action_spec)
        if parameters not in (None, wanted) and not architecture.encoders:
            raise ValueError(f"the network has {wanted} weights, but there are {parameters}")
        return cls(obs_spec, action_spec, architecture, data["normalize_obs"], scale, masked)

    def with_own(self, encoders: Mapping[str, Any] | None) -> tuple[ObsSpec, dict[str, Any]]:
        """Leaves of the observation as own encoders read them, and the classes of these encoders by path.

        Raises:
            UserError: one is missing, or is given where there is none.
        """
        own = self.architecture.own_encoders(encoders or {})
        return with_converters(self.obs_spec, own), own

    def normalizer(self) -> ObsNormalizer | None:
        """Statistics of no observation yet, or None where they are used as they are."""
        return ObsNormalizer(self.obs_spec) if self.normalize_obs else None

    def tensor_forms(self, encoders: Mapping[str, Any] | None = None) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        """Shape and type of each tensor of the policy's `state_dict`; no memory is taken for the weights.

        Raises:
            UserError: as `with_own`.
        """
        obs_spec, own = self.with_own(encoders)
        with torch.device("meta"):
            net, _ = build(obs_spec, self.action_spec, self.architecture, self.architecture.encoding(own))
        found = {f"net.{name}": (tuple(tensor.shape), tensor.dtype) for name, tensor in net.state_dict().items()}
        normalizer = self.normalizer()
        for name, array in ({} if normalizer is None else normalizer.state_dict()).items():
            found[f"normalizer.{name}"] = (array.shape, torch.float64)
        return found
