"""Which distribution an action space without parts gets; `factored` is for one with parts."""

from __future__ import annotations

import numpy as np

from steadyrl.errors import UserError
from steadyrl.nn.discrete import Bernoulli, Categorical, MultiCategorical
from steadyrl.nn.distributions import Distribution
from steadyrl.nn.gaussian import DiagGaussian, Squashed, StateDependentGaussian
from steadyrl.spaces import ActionSpec


def make_distribution(
    action_spec: ActionSpec, *, squash: bool, use_sde: bool, latent_dim: int | None = None
) -> Distribution:
    """The distribution that fits an action space.

    Args:
        action_spec: The action space.
        squash: Continuous actions go through tanh.
        use_sde: State-dependent exploration.
        latent_dim: Width of the policy's last hidden layer (`networks.policy_latent_dim`); only gSDE needs it.

    Raises:
        UserError: `squash` or `use_sde` does not fit the action space.
    """
    if action_spec.kind == "continuous":
        return _continuous(action_spec, squash, use_sde, latent_dim)
    for option, wanted in (("squash_output", squash), ("use_sde", use_sde)):
        if wanted:
            raise UserError(
                f"{option} is set, but the actions are {action_spec.kind}; it is for continuous ones.",
                remedy=f"Leave {option} out, or use an environment with a Box action space.",
                code="bad-value",
            )
    if action_spec.kind == "discrete":
        return Categorical()
    if action_spec.kind == "multidiscrete":
        return MultiCategorical(action_spec.nvec)
    return Bernoulli(action_spec.size)


def _continuous(action_spec: ActionSpec, squash: bool, use_sde: bool, latent_dim: int | None) -> Distribution:
    if squash and not action_spec.bounded.all():
        i = int(np.argmin(action_spec.bounded))
        raise UserError(
            f"squash_output is set, but dimension {i} of the action space is not bounded "
            f"(low {action_spec.low[i]:g}, high {action_spec.high[i]:g}).",
            remedy="Leave squash_output out, or bound the action space with gymnasium.wrappers.RescaleAction.",
            code="bad-value",
        )
    gaussian: DiagGaussian | StateDependentGaussian = DiagGaussian(action_spec.size)
    if use_sde:
        if latent_dim is None:
            raise ValueError("gSDE needs latent_dim, the width of the policy's last hidden layer")
        gaussian = StateDependentGaussian(action_spec.size, latent_dim)
    return Squashed(gaussian) if squash else gaussian
