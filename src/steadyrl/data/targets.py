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
