"""The network and the distribution that an architecture makes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from steadyrl.nn.actor_critics import ActorAndCritics, DiscreteActorAndCritics
from steadyrl.nn.architecture import Architecture
from steadyrl.nn.deterministic import Deterministic, Greedy
from steadyrl.nn.distribution_for import make_distribution
from steadyrl.nn.distributions import Distribution
from steadyrl.nn.encoders import PLAIN
from steadyrl.nn.encoding import Encoding
from steadyrl.nn.factored import factored
from steadyrl.nn.networks import ActorCritic, policy_latent_dim
from steadyrl.nn.q_networks import (
    ContinuousCritics,
    DeterministicActor,
    DiscreteCritics,
    DiscreteQ,
    GaussianActor,
    QNetwork,
    SDEActor,
)
from steadyrl.nn.recurrent import RecurrentActorCritic
from steadyrl.spaces import ActionSpec, ActionTree, ObsSpec

Net = ActorCritic | RecurrentActorCritic | DiscreteQ | ActorAndCritics | DiscreteActorAndCritics


def build(
    obs_spec: ObsSpec, action_spec: ActionSpec, architecture: Architecture, encoding: Encoding = PLAIN
) -> tuple[Net, Distribution]:
    """The network, its weights zero, and the distribution that turns its parameters into actions.

    Args:
        obs_spec: Leaves of the observation.
        action_spec: The environment's actions.
        architecture: What makes the network.
        encoding: How leaves become features.

    Raises:
        ValueError: the family does not choose among such actions.
    """
    architecture.check(action_spec)
    if architecture.family == "actor_critic":
        return _actor_critic(obs_spec, action_spec, architecture, encoding)
    if architecture.family == "dqn":
        return _dqn(obs_spec, action_spec, architecture, encoding), Greedy(architecture.epsilon)
    if action_spec.kind == "discrete":
        return _discrete_sac(obs_spec, action_spec, architecture, encoding), make_distribution(
            action_spec, squash=False, use_sde=False
        )
    return _continuous(obs_spec, action_spec, architecture, encoding)


def _actor_critic(
    obs_spec: ObsSpec, action_spec: ActionSpec, made: Architecture, encoding: Encoding
) -> tuple[Net, Distribution]:
    if isinstance(action_spec, ActionTree):
        distribution: Distribution = factored(action_spec)
    else:
        distribution = make_distribution(
            action_spec,
            squash=made.squash_output,
            use_sde=made.use_sde,
            latent_dim=made.recurrent_size
            if made.recurrent != "none" and not made.net_arch["pi"]
            else policy_latent_dim(obs_spec, made.net_arch, encoding),
        )
    if made.recurrent != "none":
        return RecurrentActorCritic(
            obs_spec,
            distribution,
            action_spec,
            net_arch=made.net_arch,
            activation_fn=made.activation_fn,
            log_std_init=made.log_std_init,
            layer_norm=made.layer_norm,
            kind=made.recurrent,
            size=made.recurrent_size,
            shared=made.recurrent_shared,
            encoding=encoding,
        ), distribution
    net = ActorCritic(
        obs_spec,
        distribution,
        action_spec,
        net_arch=made.net_arch,
        activation_fn=made.activation_fn,
        log_std_init=made.log_std_init,
        layer_norm=made.layer_norm,
        encoding=encoding,
    )
    return net, distribution


def _dqn(obs_spec: ObsSpec, action_spec: ActionSpec, made: Architecture, encoding: Encoding) -> DiscreteQ:
    q = _q_network(obs_spec, action_spec, made, encoding)
    return DiscreteQ(q, made.head, _support(made))


def _q_network(obs_spec: ObsSpec, action_spec: ActionSpec, made: Architecture, encoding: Encoding) -> QNetwork:
    return QNetwork(
        obs_spec,
        action_spec.nvec[0],
        made.net_arch["qf"],
        made.activation_fn,
        outputs=made.outputs,
        dueling=made.dueling,
        layer_norm=made.layer_norm,
        encoding=encoding,
    )


def _support(made: Architecture) -> Tensor | None:
    return torch.linspace(made.v_min, made.v_max, made.outputs, dtype=torch.float32) if made.head == "c51" else None


def _discrete_sac(obs_spec: ObsSpec, action_spec: ActionSpec, made: Architecture, encoding: Encoding) -> Net:
    options: dict[str, Any] = {"layer_norm": made.layer_norm, "encoding": encoding}
    pi = QNetwork(obs_spec, action_spec.nvec[0], made.net_arch["pi"], made.activation_fn, **options)
    critics = DiscreteCritics(_q_network(obs_spec, action_spec, made, encoding) for _ in range(made.n_critics))
    return DiscreteActorAndCritics(pi, critics)


def _continuous(
    obs_spec: ObsSpec, action_spec: ActionSpec, made: Architecture, encoding: Encoding
) -> tuple[Net, Distribution]:
    hidden, activation, size, norm = made.net_arch["pi"], made.activation_fn, action_spec.size, made.layer_norm
    q = ContinuousCritics(obs_spec, size, made.net_arch["qf"], activation, made.n_critics, norm, encoding)
    if made.family == "td3":
        return ActorAndCritics(
            DeterministicActor(obs_spec, size, hidden, activation, norm, encoding), q, Deterministic()
        ), Deterministic()
    pi: GaussianActor | SDEActor
    if made.use_sde:
        pi = SDEActor(obs_spec, size, hidden, activation, made.log_std_init, norm, encoding)
    else:
        pi = GaussianActor(obs_spec, size, hidden, activation, norm, encoding)
    distribution = make_distribution(action_spec, squash=True, use_sde=made.use_sde, latent_dim=pi.latent_dim)
    return ActorAndCritics(pi, q, distribution), distribution
