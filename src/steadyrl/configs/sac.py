"""Configuration of SAC (arXiv:1812.05905)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from steadyrl.configs.off_policy import ActorCriticOffPolicyConfig
from steadyrl.configs.validate import at_least_one, fail


@dataclass(frozen=True, kw_only=True)
class SACConfig(ActorCriticOffPolicyConfig):
    """Hyperparameters of SAC; names and defaults are Stable-Baselines3's."""

    ent_coef: float | str = "auto"
    """Temperature: a number, or auto to learn it (auto_0.1 starts at 0.1)."""
    target_entropy: float | str = "auto"
    """Entropy that a learned temperature aims at; auto is -dim(action), and 0.98 log n for n discrete actions."""
    n_critics: int = 2
    """Critics, of which targets take the smallest."""
    target_update_interval: int = 1
    """Gradient steps between two updates of the target networks."""
    use_sde: bool = False
    """State-dependent exploration (gSDE, arXiv:2005.05719)."""
    sde_sample_freq: int = -1
    """gSDE: steps of an environment between two draws of its exploration matrix; -1 draws once a train_freq period."""
    log_std_init: float = -3.0
    """gSDE: initial logarithm of the standard deviation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self, "n_critics", "target_update_interval")
        if isinstance(self.ent_coef, str):
            if not (self.ent_coef == "auto" or _starts_positive(self.ent_coef)):
                raise fail(self, "ent_coef", "a number above 0, auto, or auto_X with a number X above 0")
        elif self.ent_coef < 0:
            raise fail(self, "ent_coef", "at least 0")
        if isinstance(self.target_entropy, str) and self.target_entropy != "auto":
            raise fail(self, "target_entropy", "a number or auto")

    @property
    def initial_ent_coef(self) -> float:
        """The temperature at the start."""
        if isinstance(self.ent_coef, str):
            return float(self.ent_coef.removeprefix("auto").removeprefix("_") or "1")
        return float(self.ent_coef)


def _starts_positive(text: str) -> bool:
    """Whether this is auto_X with a finite number X above 0."""
    try:
        return text.startswith("auto_") and 0 < float(text.removeprefix("auto_")) < math.inf
    except ValueError:
        return False
