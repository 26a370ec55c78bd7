"""Configuration of DQN (Mnih et al. 2015) and its extensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from steadyrl.configs.off_policy import OffPolicyConfig
from steadyrl.configs.schedules import Schedule
from steadyrl.configs.validate import at_least_one, fail, in_range, not_negative, positive


@dataclass(frozen=True, kw_only=True)
class DQNConfig(OffPolicyConfig):
    """Hyperparameters of DQN; names and defaults are Stable-Baselines3's."""

    learning_rate: Schedule = 1e-4
    """Step size of the optimiser."""
    batch_size: int = 32
    """Transitions in a minibatch."""
    tau: float = 1.0
    """The target network moves this share of the way to the online one (1 copies it)."""
    train_freq: int = 4
    """Environment steps, of all environments together, between two updates."""
    target_update_interval: int = 10_000
    """Environment steps between two updates of the target network."""
    exploration_fraction: float = 0.1
    """Share of the run over which the exploration rate falls."""
    exploration_initial_eps: float = 1.0
    """Share of random actions at the start."""
    exploration_final_eps: float = 0.05
    """Share of random actions after that."""
    max_grad_norm: float = 10.0
    """Gradients are scaled down to this norm; 0 leaves them alone."""
    net_arch: tuple[int, ...] | dict[str, tuple[int, ...]] = (64, 64)
    """Hidden layers of the network, or {'qf': (64, 64)}."""
    double: bool = False
    """The online network chooses the next action, the target network values it (arXiv:1509.06461)."""
    dueling: bool = False
    """Value and advantages have streams of their own (arXiv:1511.06581)."""
    prioritized: bool = False
    """Transitions are sampled by their TD error (arXiv:1511.05952)."""
    prioritized_alpha: float = 0.6
    """Exponent of the priorities; 0 samples uniformly."""
    prioritized_beta: Schedule = 0.4
    """Exponent of the importance weights; usually rises to 1 (--prioritized-beta-end 1)."""
    head: Literal["mean", "c51", "quantile"] = "mean"
    """What the network says of the return: its mean, a categorical distribution (C51, arXiv:1707.06887), or quantiles
    (QR-DQN, arXiv:1710.10044)."""
    n_atoms: int = 51
    """Atoms of C51's distribution."""
    v_min: float = -10.0
    """Lowest return of C51's support."""
    v_max: float = 10.0
    """Highest return of C51's support."""
    n_quantiles: int = 50
    """Quantiles of QR-DQN."""

    @property
    def networks(self) -> tuple[str, ...]:
        """Keys of `net_arch` where each network has sizes of its own."""
        return ("qf",)

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self, "target_update_interval", "n_atoms", "n_quantiles")
        positive(self, "exploration_fraction")
        in_range(
            self,
            0.0,
            1.0,
            "exploration_fraction",
            "exploration_initial_eps",
            "exploration_final_eps",
            "prioritized_alpha",
            "prioritized_beta",
        )
        not_negative(self, "max_grad_norm")
        if self.prioritized and self.hindsight != "none":
            raise fail(self, "prioritized", "False where hindsight is used")
        if self.head == "c51" and self.n_atoms < 2:
            raise fail(self, "n_atoms", "at least 2 where the head is c51")
        if self.head == "c51" and not self.v_min < self.v_max:
            raise fail(self, "v_max", f"above v_min = {self.v_min}")
