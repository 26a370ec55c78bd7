"""An actor and its action values as one module, with the interface of every policy's network."""

from __future__ import annotations

from torch import Tensor, nn

from steadyrl.nn.distributions import Distribution, Params
from steadyrl.nn.encoders import Obs
from steadyrl.nn.masking import masked
from steadyrl.nn.part import Part
from steadyrl.nn.q_networks import (
    ContinuousCritics,
    DeterministicActor,
    DiscreteCritics,
    GaussianActor,
    QNetwork,
    SDEActor,
)
from steadyrl.seeding import Stream


class ActorAndCritics(nn.Module):
    """Actor `pi` and critics `q` of continuous actions.

    Args:
        pi: The actor.
        q: The critics.
        distribution: Turns the actor's parameters into actions.
    """

    def __init__(
        self, pi: DeterministicActor | GaussianActor | SDEActor, q: ContinuousCritics, distribution: Distribution
    ) -> None:
        super().__init__()
        self.pi = pi
        self.q = q
        self._distribution = distribution

    def initialise(self, stream: Stream) -> None:
        """Fill every weight from the stream."""
        self.pi.initialise(stream)
        self.q.initialise(stream)

    def parts(self) -> dict[str, Part]:
        """What is trained by a loss of its own."""
        return {"pi": self.pi, "q": self.q}

    def actor(self, obs: Obs) -> Params:
        """Parameters of the action distribution."""
        params: Params = self.pi(obs)
        return params

    def critic(self, obs: Obs) -> Tensor:
        """min_i Q_i(s, pi(s)), [B]."""
        actions = self._distribution.to_unit(self._distribution.mode(self.pi(obs)))
        values: Tensor = self.q(obs, actions).min(dim=0).values
        return values


class DiscreteActorAndCritics(nn.Module):
    """Actor `pi` and critics `q` of discrete actions, each with one number for every action."""

    def __init__(self, pi: QNetwork, q: DiscreteCritics) -> None:
        super().__init__()
        self.pi = pi
        self.q = q

    def initialise(self, stream: Stream) -> None:
        """Fill every weight from the stream."""
        self.pi.initialise(stream)
        self.q.initialise(stream)

    def parts(self) -> dict[str, Part]:
        """What is trained by a loss of its own."""
        return {"pi": self.pi, "q": self.q}

    def actor(self, obs: Obs) -> Params:
        """Logits ([B, A],)."""
        return (self.pi(obs).squeeze(-1),)

    def critic(self, obs: Obs) -> Tensor:
        """Expected min_i Q_i(s, a) under the policy among what the masks allow, [B]."""
        weights = masked(self.actor(obs), obs)[0].softmax(dim=-1)
        smallest: Tensor = self.q(obs).min(dim=0).values
        return (weights * smallest).sum(dim=-1)
