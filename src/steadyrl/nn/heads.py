"""From the policy's last hidden layer to the parameters of its distribution."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from steadyrl.nn.distributions import Distribution, Params
from steadyrl.nn.init import BlankLinear
from steadyrl.spaces import ActionSpec, ActionTree


class DiscreteHead(nn.Module):
    """Logits [B, width], linear in the latent [B, L]."""

    def __init__(self, latent_dim: int, width: int) -> None:
        super().__init__()
        self.logits = BlankLinear(latent_dim, width)

    def forward(self, latent: Tensor) -> Params:
        """(logits [B, width],)."""
        return (self.logits(latent),)


class GaussianHead(nn.Module):
    """A mean linear in the latent [B, L], and a log standard deviation [D] that depends on nothing."""

    def __init__(self, latent_dim: int, size: int, log_std_init: float) -> None:
        super().__init__()
        self.mean = BlankLinear(latent_dim, size)
        self.log_std = nn.Parameter(torch.full((size,), log_std_init, dtype=torch.float32))

    def forward(self, latent: Tensor) -> Params:
        """(mean [B, D], log_std [D])."""
        return self.mean(latent), self.log_std


class SDEHead(nn.Module):
    """A mean linear in the latent, the latent as gSDE's phi, and a log standard deviation for each entry of theta.

    Where `learn_features` is off, phi is detached and the features learn from the mean alone; Stable-Baselines3 has it
    off for PPO and A2C and on for SAC.
    """

    def __init__(self, latent_dim: int, size: int, log_std_init: float, *, learn_features: bool = False) -> None:
        super().__init__()
        self._learn_features = learn_features
        self.mean = BlankLinear(latent_dim, size)
        self.log_std = nn.Parameter(torch.full((latent_dim, size), log_std_init, dtype=torch.float32))

    def forward(self, latent: Tensor) -> Params:
        """(mean [B, D], phi [B, L], log_std [L, D])."""
        return self.mean(latent), latent if self._learn_features else latent.detach(), self.log_std


class TreeHead(nn.Module):
    """The heads of an action's parts, side by side."""

    def __init__(self, heads: list[DiscreteHead | GaussianHead]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(heads)

    def forward(self, latent: Tensor) -> Params:
        """The parameters of all parts, in their order."""
        return tuple(param for head in self.parts for param in head(latent))


PolicyHead = DiscreteHead | GaussianHead | SDEHead | TreeHead


def make_head(distribution: Distribution, latent_dim: int, action_spec: ActionSpec, log_std_init: float) -> PolicyHead:
    """The head whose parameters `distribution` takes."""
    if distribution.state_dependent:
        return SDEHead(latent_dim, action_spec.size, log_std_init)
    if isinstance(action_spec, ActionTree):
        return TreeHead([_plain_head(latent_dim, part, log_std_init) for _, part in action_spec.parts])
    return _plain_head(latent_dim, action_spec, log_std_init)


def _plain_head(latent_dim: int, action_spec: ActionSpec, log_std_init: float) -> DiscreteHead | GaussianHead:
    if action_spec.kind == "continuous":
        return GaussianHead(latent_dim, action_spec.size, log_std_init)
    width = action_spec.size if action_spec.kind == "multibinary" else sum(action_spec.nvec)
    return DiscreteHead(latent_dim, width)
