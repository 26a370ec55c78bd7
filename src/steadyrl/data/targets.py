"""What values and advantages are trained towards: the torch text of each formula, once."""

from __future__ import annotations

import torch
from torch import Tensor


def next_values(values: Tensor, last_values: Tensor, final_values: Tensor, truncated: Tensor) -> Tensor:
    """V of the true successor of each step.

    Args:
        values: V of the observation acted on, [T, N].
        last_values: V of the observation after the last step, [N].
        final_values: V of the true final observation where `truncated`, anything elsewhere, [T, N].
        truncated: [T, N], bool.

    Returns:
        [T, N]; where an episode was terminated the entry means nothing and is not used.
    """
    shifted = torch.cat([values[1:], last_values[None]])
    return torch.where(truncated, final_values, shifted)


def gae(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    done: Tensor,
    valid: Tensor,
    gamma: float,
    gae_lambda: float,
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation (arXiv:1506.02438) under time limits (arXiv:1712.00378).

    `delta = rewards + gamma * ~terminated * next_values - values`; the trace is cut by `done = terminated |
    truncated`, and a row that is not `valid` carries nothing. All arguments are [T, N].

    Returns:
        Advantages and returns (advantages + values), [T, N].
    """
    delta = rewards + gamma * torch.where(terminated, 0.0, next_values) - values
    decay = gamma * gae_lambda * (~done).to(rewards.dtype)
    advantages = torch.empty_like(rewards)
    trace = torch.zeros_like(rewards[0])
    for t in range(rewards.shape[0] - 1, -1, -1):
        trace = torch.where(valid[t], delta[t] + decay[t] * trace, 0.0)
        advantages[t] = trace
    return advantages, advantages + values


def explained_variance(values: Tensor, returns: Tensor) -> Tensor:
    """`1 - Var(returns - values) / Var(returns)` over flat [B]: 1 is perfect, 0 a constant's, NaN undefined."""
    variance = returns.var(correction=0)
    return torch.where(variance > 0, 1.0 - (returns - values).var(correction=0) / variance, torch.nan)


def q_target(rewards: Tensor, discounts: Tensor, terminated: Tensor, next_values: Tensor) -> Tensor:
    """`r + gamma^k * ~terminated * next_value`, of shapes that broadcast; `discounts` holds gamma^k."""
    return rewards + discounts * torch.where(terminated, 0.0, next_values)


def polyak(target: Tensor, online: Tensor, tau: float) -> None:
    """`target <- (1 - tau) * target + tau * online`, in place, on flat parameters [P]; tau 1 copies."""
    if tau == 1.0:
        target.copy_(online)
    else:
        target.lerp_(online, tau)


def project_categorical(probabilities: Tensor, returns: Tensor, support: Tensor) -> Tensor:
    """A distribution over `returns` as one over the evenly spaced `support` (arXiv:1707.06887, algorithm 1).

    Args:
        probabilities: [B, K].
        returns: Where each of them lies after the Bellman step, [B, K]; clipped to the support.
        support: [K], ascending, K >= 2.

    Returns:
        [B, K]; rows sum to 1.
    """
    low, high = support[0], support[-1]
    position = (returns.clamp(low, high) - low) / (support[1] - support[0])
    atoms = torch.arange(len(support), device=support.device)
    distance = (position.clamp(0, len(support) - 1).unsqueeze(1) - atoms.unsqueeze(-1)).abs()
    return ((1.0 - distance).clamp(min=0.0) * probabilities.unsqueeze(1)).sum(dim=-1)


def quantile_huber(quantiles: Tensor, target: Tensor) -> Tensor:
    """Quantile regression with the Huber loss, threshold 1 (arXiv:1710.10044, equation 10).

    Args:
        quantiles: [B, K], at the midpoints (i + 0.5) / K.
        target: [B, M], samples or quantiles of the target distribution.

    Returns:
        Per row, summed over quantiles and averaged over targets, [B].
    """
    k = quantiles.shape[1]
    tau = (torch.arange(k, dtype=quantiles.dtype, device=quantiles.device) + 0.5) / k
    error = target.unsqueeze(1) - quantiles.unsqueeze(-1)  # [B, K, M]
    huber = torch.where(error.abs() <= 1.0, 0.5 * error.square(), error.abs() - 0.5)
    return ((tau[:, None] - (error < 0).to(quantiles)).abs() * huber).mean(dim=-1).sum(dim=-1)
