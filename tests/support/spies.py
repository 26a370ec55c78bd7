"""Looking at what passes between the parts of a training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from steadyrl.data.rollout import RolloutBatch
from steadyrl.training.agent import Agent
from steadyrl.training.on_policy import OnPolicyLoop


def tap(owner: object, method: str, look: Callable[..., object]) -> None:
    """From now on `look` is called with the arguments of each call of a method, before it."""
    original = getattr(owner, method)

    def tapped(*args: Any) -> Any:
        look(*args)
        return original(*args)

    setattr(owner, method, tapped)


class Lesson(NamedTuple):
    """What an algorithm is called with."""

    batch: RolloutBatch
    progress: float


def lessons_not_learnt(agent: Agent) -> list[Lesson]:
    """What the algorithm is called with from now on; it learns nothing from it."""
    caught: list[Lesson] = []

    def keep(batch: RolloutBatch, progress: float) -> dict[str, Tensor | float]:
        caught.append(
            Lesson(batch.take(torch.arange(len(batch.returns))), progress)
        )  # the rollout's memory is used again
        return {}

    setattr(rollouts_of(agent).algorithm, "learn", keep)  # noqa: B010  (mypy does not let a method be assigned)
    return caught


def rollouts_of(agent: Agent) -> OnPolicyLoop:
    """The loop of an on-policy agent, with its rollout."""
    assert isinstance(agent.loop, OnPolicyLoop)
    return agent.loop
