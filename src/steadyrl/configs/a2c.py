"""Configuration of A2C (arXiv:1602.01783)."""

from __future__ import annotations

from dataclasses import dataclass

from steadyrl.configs.on_policy import OnPolicyConfig
from steadyrl.configs.schedules import Schedule
from steadyrl.configs.validate import positive


@dataclass(frozen=True, kw_only=True)
class A2CConfig(OnPolicyConfig):
    """Hyperparameters of A2C; names and defaults are Stable-Baselines3's."""

    n_steps: int = 5
    """Steps of each environment in a rollout (T); an update uses n_steps * num_envs transitions once."""
    learning_rate: Schedule = 7e-4
    """Step size of the optimiser."""
    gae_lambda: float = 1.0
    """1 gives plain n-step advantages; less trades variance for bias (arXiv:1506.02438)."""
    normalize_advantage: bool = False
    """Advantages are given mean 0 and standard deviation 1 in each update."""
    use_rms_prop: bool = True
    """RMSprop as TensorFlow computes it (epsilon under the root, moments from 1); otherwise Adam."""
    rms_prop_eps: float = 1e-5
    """RMSprop's epsilon."""
    log_interval: int = 100
    """Updates between two rows of metrics."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "rms_prop_eps")
