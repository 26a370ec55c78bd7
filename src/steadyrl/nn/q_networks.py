"""Networks of the off-policy algorithms: action values of discrete and of continuous actions, and actors.

Weights are zero until `initialise`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from steadyrl.nn.distributions import Params
from steadyrl.nn.encoders import PLAIN, Encoder, Obs, init_part
from steadyrl.nn.encoding import Encoding
from steadyrl.nn.heads import SDEHead
from steadyrl.nn.init import BlankLinear
from steadyrl.nn.masking import masked
from steadyrl.nn.networks import ACTIVATIONS, mlp
from steadyrl.nn.part import Part
from steadyrl.seeding import Stream
from steadyrl.spaces import ObsSpec

MEAN_BOUND = 2.0  # of gSDE's mean before tanh


class QNetwork(Part):
    """Q(s, .) of every discrete action, each as `outputs` numbers (1, or the atoms of a return distribution).

    Args:
        obs_spec: The observation space.
        n_actions: A.
        hidden: Hidden widths.
        activation_fn: A key of `ACTIVATIONS`.
        outputs: K numbers for each action.
        dueling: Value and advantages have heads of their own (arXiv:1511.06581).
        layer_norm: Hidden layers are normalised before their activation.
        encoding: How leaves become features.
    """

    def __init__(
        self,
        obs_spec: ObsSpec,
        n_actions: int,
        hidden: Sequence[int],
        activation_fn: str,
        *,
        outputs: int = 1,
        dueling: bool = False,
        layer_norm: bool = False,
        encoding: Encoding = PLAIN,
    ) -> None:
        super().__init__()
        self.encoder = Encoder(obs_spec, encoding)
        self.trunk = mlp(self.encoder.features, hidden, ACTIVATIONS[activation_fn], layer_norm)
        width = hidden[-1] if hidden else self.encoder.features
        self.advantage_head = BlankLinear(width, n_actions * outputs)
        self.value_head = BlankLinear(width, outputs) if dueling else None
        self.shape = (n_actions, outputs)

    def initialise(self, stream: Stream) -> None:
        """Fill every weight as torch's `nn.Linear` does, from the stream."""
        init_part(self, stream)

    def forward(self, obs: Obs) -> Tensor:
        """[B, A, K]."""
        if self.looks:
            looked: Tensor = self.kernel.look(obs)
            return looked
        hidden = self.trunk(self.encoder(obs))
        advantages: Tensor = self.advantage_head(hidden).unflatten(-1, self.shape)
        if self.value_head is None:
            return advantages
        values: Tensor = self.value_head(hidden).unsqueeze(1)
        return values + advantages - advantages.mean(dim=1, keepdim=True)


class DiscreteQ(nn.Module):
    """A `QNetwork` with the meaning of its numbers.

    Args:
        q: The network.
        head: `mean`, `c51` (K logits over `support`) or `quantile` (K quantiles).
        support: Returns of C51's atoms, [K]; None for the others.
    """

    support: Tensor | None

    def __init__(self, q: QNetwork, head: str, support: Tensor | None) -> None:
        super().__init__()
        self.q = q
        self.head = head
        self.register_buffer("support", support, persistent=False)

    def initialise(self, stream: Stream) -> None:
        """Fill every weight from the stream."""
        self.q.initialise(stream)

    def parts(self) -> dict[str, Part]:
        """What is trained by a loss of its own."""
        return {"q": self.q}

    def forward(self, obs: Obs) -> Tensor:
        """What the loss takes: [B, A, K]."""
        outputs: Tensor = self.q(obs)
        return outputs

    def means(self, outputs: Tensor) -> Tensor:
        """Expected returns [B, A] of `forward`'s outputs."""
        return expected_returns(outputs, self.support)

    def actor(self, obs: Obs) -> Params:
        """Expected returns of all actions, ([B, A],)."""
        return (self.means(self(obs)),)

    def critic(self, obs: Obs) -> Tensor:
        """max_a Q(s, a) over what the masks allow, [B]."""
        return masked(self.actor(obs), obs)[0].max(dim=-1).values


def expected_returns(outputs: Tensor, support: Tensor | None) -> Tensor:
    """Expected returns [B, A] of values, quantiles, or logits over a support [K] of returns, [B, A, K]."""
    if support is not None:
        return outputs.softmax(dim=-1) @ support
    return outputs.squeeze(-1) if outputs.shape[-1] == 1 else outputs.mean(dim=-1)


class ContinuousCritics(Part):
    """n different critics Q_i(s, a) of continuous actions in [-1, 1] space."""

    def __init__(
        self,
        obs_spec: ObsSpec,
        action_size: int,
        hidden: Sequence[int],
        activation_fn: str,
        n_critics: int,
        layer_norm: bool = False,
        encoding: Encoding = PLAIN,
    ) -> None:
        super().__init__()
        self.encoder = Encoder(obs_spec, encoding)
        width_in = self.encoder.features + action_size
        width_out = hidden[-1] if hidden else width_in
        self.critics = nn.ModuleList(
            nn.Sequential(mlp(width_in, hidden, ACTIVATIONS[activation_fn], layer_norm), BlankLinear(width_out, 1))
            for _ in range(n_critics)
        )

    def initialise(self, stream: Stream) -> None:
        """Fill every weight as torch's `nn.Linear` does, from the stream."""
        init_part(self, stream)

    def forward(self, obs: Obs, actions: Tensor) -> Tensor:
        """[n, B] for actions [B, D]."""
        if self.looks:
            looked: Tensor = self.kernel.look(obs, actions)
            return looked
        inputs = torch.cat([self.encoder(obs), actions], dim=-1)
        return torch.stack([critic(inputs).squeeze(-1) for critic in self.critics])


class DiscreteCritics(Part, nn.ModuleList):
    """n different critics Q_i(s, .) of discrete actions."""

    def initialise(self, stream: Stream) -> None:
        """Fill every weight as torch's `nn.Linear` does, from the stream."""
        init_part(self, stream)

    def forward(self, obs: Obs) -> Tensor:
        """[n, B, A]."""
        if self.looks:
            looked: Tensor = self.kernel.look(obs)
            return looked
        return torch.stack([critic(obs).squeeze(-1) for critic in self])


class DeterministicActor(Part):
    """mu(s) in [-1, 1], through tanh."""

    def __init__(
        self,
        obs_spec: ObsSpec,
        action_size: int,
        hidden: Sequence[int],
        activation_fn: str,
        layer_norm: bool = False,
        encoding: Encoding = PLAIN,
    ) -> None:
        super().__init__()
        self.encoder = Encoder(obs_spec, encoding)
        self.trunk = mlp(self.encoder.features, hidden, ACTIVATIONS[activation_fn], layer_norm)
        self.head = BlankLinear(hidden[-1] if hidden else self.encoder.features, action_size)

    def initialise(self, stream: Stream) -> None:
        """Fill every weight as torch's `nn.Linear` does, from the stream."""
        init_part(self, stream)

    def forward(self, obs: Obs) -> Params:
        """Actions ([B, D],)."""
        if self.looks:
            looked: Params = self.kernel.look(obs)
            return looked
        return (torch.tanh(self.head(self.trunk(self.encoder(obs)))),)


class SDEActor(Part):
    """Mean, features and log standard deviations of state-dependent exploration (arXiv:2005.05719).

    The mean is clipped, as in Stable-Baselines3's SAC: beyond it tanh is flat, and nothing would bring it back.
    """

    def __init__(
        self,
        obs_spec: ObsSpec,
        action_size: int,
        hidden: Sequence[int],
        activation_fn: str,
        log_std_init: float,
        layer_norm: bool = False,
        encoding: Encoding = PLAIN,
    ) -> None:
        super().__init__()
        self.encoder = Encoder(obs_spec, encoding)
        self.trunk = mlp(self.encoder.features, hidden, ACTIVATIONS[activation_fn], layer_norm)
        self.latent_dim = hidden[-1] if hidden else self.encoder.features
        self.head = SDEHead(self.latent_dim, action_size, log_std_init, learn_features=True)

    def initialise(self, stream: Stream) -> None:
        """Fill every weight as torch's `nn.Linear` does, from the stream."""
        init_part(self, stream)

    def forward(self, obs: Obs) -> Params:
        """Means [B, D], features [B, L], log standard deviations [L, D]."""
        mean, phi, log_std = self.head(self.trunk(self.encoder(obs)))
        return mean.clamp(-MEAN_BOUND, MEAN_BOUND), phi, log_std


class GaussianActor(Part):
    """Mean and log standard deviation of a Gaussian, both from the observation; `Squashed` bounds the latter."""

    def __init__(
        self,
        obs_spec: ObsSpec,
        action_size: int,
        hidden: Sequence[int],
        activation_fn: str,
        layer_norm: bool = False,
        encoding: Encoding = PLAIN,
    ) -> None:
        super().__init__()
        self.encoder = Encoder(obs_spec, encoding)
        self.trunk = mlp(self.encoder.features, hidden, ACTIVATIONS[activation_fn], layer_norm)
        self.latent_dim = hidden[-1] if hidden else self.encoder.features
        self.mean = BlankLinear(self.latent_dim, action_size)
        self.log_std = BlankLinear(self.latent_dim, action_size)

    def initialise(self, stream: Stream) -> None:
        """Fill every weight as torch's `nn.Linear` does, from the stream."""
        init_part(self, stream)

    def forward(self, obs: Obs) -> Params:
        """Means and log standard deviations, ([B, D], [B, D])."""
        if self.looks:
            looked: Params = self.kernel.look(obs)
            return looked
        hidden = self.trunk(self.encoder(obs))
        return self.mean(hidden), self.log_std(hidden)
