"""The metrics of one row."""

from __future__ import annotations

import torch
from torch import Tensor

from steadyrl.training.loops import Loop


def metrics_of(loop: Loop, fps: float, elapsed: float) -> dict[str, float]:
    """Those of the rollout, the clock and the counters, as the loop stands; the guard's pending finds are read."""
    counters, episodes = loop.counters, loop.episodes
    metrics: dict[str, float] = {}
    if episodes:
        metrics["rollout/ep_rew_mean"] = sum(e.return_ for e in episodes) / len(episodes)
        metrics["rollout/ep_len_mean"] = sum(e.length for e in episodes) / len(episodes)
        known = [e.success for e in episodes if e.success is not None]
        if known:
            metrics["rollout/success_rate"] = sum(known) / len(known)
    if counters.restarts:
        metrics["env/restarts"] = float(counters.restarts)
    metrics |= {"time/fps": fps, "time/time_elapsed": elapsed, "train/n_updates": float(counters.updates)}
    loop.guard.read()
    if loop.guard.skip:
        metrics["train/nonfinite_batches"] = float(loop.guard.count)
        metrics["rollout/nonfinite_episodes"] = float(getattr(loop.venv, "dropped", 0))
    return metrics


def mean_of(rows: list[dict[str, Tensor | float]]) -> dict[str, float]:
    """Mean of each metric over the rows that have it; this is where metrics come to the host."""
    values: dict[str, list[Tensor | float]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, []).append(value)
    return {name: _mean(xs) for name, xs in values.items()}


def _mean(values: list[Tensor | float]) -> float:
    """Their mean in float64; values on an accelerator come in one transfer."""
    if isinstance(values[0], Tensor) and values[0].device.type != "cpu":
        return float(torch.stack([torch.as_tensor(x, dtype=torch.float64) for x in values]).mean())
    if len(values) == 1:  # the usual row of an on-policy run
        return float(values[0])
    return float(torch.tensor([float(x) for x in values], dtype=torch.float64).mean())
