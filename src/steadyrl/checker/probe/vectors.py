"""What a vector version does, and how one environment is read out of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from steadyrl.checker.plan import SEED
from steadyrl.checker.probe.driver import Fault
from steadyrl.checker.probe.values import own

NUM_ENVS = 4


@dataclass(frozen=True)
class Unlike:
    """Where a vector version differs from what it should return.

    Attributes:
        step: Of the vector.
        row: Number of the environment.
        what: In words.
    """

    step: int
    row: int
    what: str

    @property
    def evidence(self) -> dict[str, Any]:
        """As evidence of a finding."""
        return {"step": self.step, "environment": self.row, "value": self.what, "seed": SEED}


@dataclass
class Vectors:
    """What a vector version does.

    Attributes:
        raised: What it raised, and where.
        mode: The declared autoreset mode; empty where none is.
        form: What is wrong with its own form, such as shapes, in words.
        obs_faults: Observations that are unlike the batched space: kind -> where.
        final: Where the last observation of an episode is lost or wrong.
        unlike: Where it differs from the single environment.
        comparable: Whether the same seeds give the same starts as single environments do.
        repeats: Where a second instance with the same seed differs.
        aliased: A returned array that changed afterwards.
        alike: All its environments start alike with one seed, while single ones do not.
        mutated: An array of actions was written into.
        compared: Vector steps.
        ends: Ends of episodes among them.
    """

    raised: Fault | None = None
    mode: str = ""
    form: str = ""
    obs_faults: dict[str, Unlike] = field(default_factory=dict)
    final: Unlike | None = None
    unlike: Unlike | None = None
    comparable: bool = False
    repeats: Unlike | None = None
    aliased: Unlike | None = None
    alike: bool = False
    mutated: Unlike | None = None
    compared: int = 0
    ends: int = 0


def row_of(batch: Any, i: int) -> Any:
    """The value of one environment in a batch, its own."""
    if isinstance(batch, dict):
        return {key: row_of(part, i) for key, part in batch.items()}
    if isinstance(batch, tuple) and batch and isinstance(batch[0], np.ndarray | dict | tuple):
        return tuple(row_of(part, i) for part in batch)
    value = batch[i]
    return value.copy() if isinstance(value, np.ndarray) else own(value)


def entry_of(infos: Any, key: str, i: int) -> Any:
    """The entry of one environment in infos; None where there is none."""
    values = infos.get(key) if isinstance(infos, dict) else None
    if values is None:
        return None
    mask = infos.get(f"_{key}")
    if mask is not None and not mask[i]:
        return None
    return row_of(values, i) if isinstance(values, dict) else values[i]


def mode_of(vector: VectorEnv[Any, Any, Any]) -> str:
    """The declared autoreset mode; empty where none is."""
    mode = (vector.metadata or {}).get("autoreset_mode")
    return str(AutoresetMode(mode).value) if mode is not None else ""


def form_fault(vector: VectorEnv[Any, Any, Any]) -> str:
    """What is wrong with what a vector declares, in words."""
    for name in ("single_observation_space", "single_action_space", "observation_space", "action_space"):
        if not isinstance(getattr(vector, name, None), gym.Space):
            return f"it has no {name}"
    if not isinstance(getattr(vector, "num_envs", None), int):
        return "it has no num_envs"
    for name in ("observation_space", "action_space"):
        wanted = batch_space(getattr(vector, f"single_{name}"), vector.num_envs)
        if getattr(vector, name) != wanted:
            return f"its {name} is {getattr(vector, name)} instead of {wanted}"
    return ""
