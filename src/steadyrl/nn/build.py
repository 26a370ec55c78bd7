"""What makes a policy's network, and the network and distribution that it makes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from steadyrl.nn.actor_critics import ActorAndCritics, DiscreteActorAndCritics
from steadyrl.nn.deterministic import Deterministic, Greedy
from steadyrl.nn.distributions import Distribution, make_distribution
from steadyrl.nn.networks import ActorCritic, policy_latent_dim
from steadyrl.nn.q_networks import ContinuousCritics, DeterministicActor, DiscreteQ, GaussianActor, QNetwork, SDEActor
from steadyrl.spaces import ActionSpec, ObsSpec

Family = Literal["actor_critic", "dqn", "td3", "sac"]
Head = Literal["mean", "c51", "quantile"]
Net = ActorCritic | DiscreteQ | ActorAndCritics | DiscreteActorAndCritics
_MAX_LAYERS = 1000  # of a saved network: making layers takes time even where they are narrow
_KINDS = {
    "actor_critic": {"continuous", "discrete", "multidiscrete", "multibinary"},
    "dqn": {"discrete"},
    "td3": {"continuous"},
    "sac": {"continuous", "discrete"},
}
_SIZES = {"actor_critic": {"pi", "vf"}, "dqn": {"qf"}, "td3": {"pi", "qf"}, "sac": {"pi", "qf"}}


@dataclass(frozen=True)
class Architecture:
    """What makes the network; fields as in the configuration of the algorithm.

    `epsilon` is the share of random actions of a DQN policy that is asked to sample; `outputs` are the numbers that a
    `head` has for each action: 1, atoms or quantiles.
    """

    net_arch: dict[str, tuple[int, ...]]
    activation_fn: str
    log_std_init: float = 0.0
    squash_output: bool = False
    use_sde: bool = False
    family: Family = "actor_critic"
    n_critics: int = 1
    dueling: bool = False
    head: Head = "mean"
    outputs: int = 1
    v_min: float = 0.0
    v_max: float = 0.0
    epsilon: float = 0.0

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Architecture:
        """The inverse of `dataclasses.asdict`, from JSON; ValueError, TypeError or KeyError for anything else."""
        made = cls(**{**data, "net_arch": {name: tuple(sizes) for name, sizes in data["net_arch"].items()}})
        widths = [width for sizes in made.net_arch.values() for width in sizes]
        numbers = (made.log_std_init, made.v_min, made.v_max, made.epsilon)
        good = (
            made.family in get_args(Family)
            and made.head in get_args(Head)
            and made.net_arch.keys() == _SIZES[made.family]
            and all(type(size) is int and size >= 1 for size in (*widths, made.n_critics, made.outputs))
            and (len(widths) + 1) * made.n_critics <= _MAX_LAYERS
            and all(type(number) in (int, float) and math.isfinite(number) for number in numbers)
            and {type(made.squash_output), type(made.use_sde), type(made.dueling)} == {bool}
            and 0.0 <= made.epsilon <= 1.0
            and _head_fits(made)
        )
        if not good:
            raise ValueError(f"{data} is no architecture")
        return made

    def parameters(self, obs_spec: ObsSpec, action_spec: ActionSpec) -> int:
        """How many weights the network has, counted on tensors without memory; ValueError if it does not fit."""
        with torch.device("meta"):
            net, _ = build(obs_spec, action_spec, self)
        return sum(parameter.numel() for parameter in net.parameters())


def _head_fits(made: Architecture) -> bool:
    if made.head == "mean":
        return made.outputs == 1
    return made.family == "dqn" and (made.head == "quantile" or (made.outputs >= 2 and made.v_min < made.v_max))


def build(obs_spec: ObsSpec, action_spec: ActionSpec, architecture: Architecture) -> tuple[Net, Distribution]:
    """The network, its weights zero, and the distribution that turns its parameters into actions.

    Raises:
        ValueError: the family does not choose among such actions.
    """
    if action_spec.kind not in _KINDS[architecture.family]:
        raise ValueError(f"the family {architecture.family} has no network for {action_spec.kind} actions")
    if architecture.family == "actor_critic":
        return _actor_critic(obs_spec, action_spec, architecture)
    if architecture.family == "dqn":
        return _dqn(obs_spec, action_spec, architecture), Greedy(architecture.epsilon)
    if action_spec.kind == "discrete":
        return _discrete_sac(obs_spec, action_spec, architecture), make_distribution(
            action_spec, squash=False, use_sde=False
        )
    return _continuous(obs_spec, action_spec, architecture)


def _actor_critic(obs_spec: ObsSpec, action_spec: ActionSpec, made: Architecture) -> tuple[Net, Distribution]:
    distribution = make_distribution(
        action_spec,
        squash=made.squash_output,
        use_sde=made.use_sde,
        latent_dim=policy_latent_dim(obs_spec, made.net_arch),
    )
    net = ActorCritic(
        obs_spec,
        distribution,
        action_spec,
        net_arch=made.net_arch,
        activation_fn=made.activation_fn,
        log_std_init=made.log_std_init,
    )
    return net, distribution


def _dqn(obs_spec: ObsSpec, action_spec: ActionSpec, made: Architecture) -> DiscreteQ:
    q = _q_network(obs_spec, action_spec, made)
    return DiscreteQ(q, made.head, _support(made))


def _q_network(obs_spec: ObsSpec, action_spec: ActionSpec, made: Architecture) -> QNetwork:
    return QNetwork(
        obs_spec,
        action_spec.nvec[0],
        made.net_arch["qf"],
        made.activation_fn,
        outputs=made.outputs,
        dueling=made.dueling,
    )


def _support(made: Architecture) -> Tensor | None:
    return torch.linspace(made.v_min, made.v_max, made.outputs) if made.head == "c51" else None


def _discrete_sac(obs_spec: ObsSpec, action_spec: ActionSpec, made: Architecture) -> Net:
    pi = QNetwork(obs_spec, action_spec.nvec[0], made.net_arch["pi"], made.activation_fn)
    critics = nn.ModuleList(_q_network(obs_spec, action_spec, made) for _ in range(made.n_critics))
    return DiscreteActorAndCritics(pi, critics)


def _continuous(obs_spec: ObsSpec, action_spec: ActionSpec, made: Architecture) -> tuple[Net, Distribution]:
    hidden, activation, size = made.net_arch["pi"], made.activation_fn, action_spec.size
    q = ContinuousCritics(obs_spec, size, made.net_arch["qf"], activation, made.n_critics)
    if made.family == "td3":
        return ActorAndCritics(
            DeterministicActor(obs_spec, size, hidden, activation), q, Deterministic()
        ), Deterministic()
    pi: GaussianActor | SDEActor
    if made.use_sde:
        pi = SDEActor(obs_spec, size, hidden, activation, made.log_std_init)
    else:
        pi = GaussianActor(obs_spec, size, hidden, activation)
    distribution = make_distribution(action_spec, squash=True, use_sde=made.use_sde, latent_dim=pi.latent_dim)
    return ActorAndCritics(pi, q, distribution), distribution
