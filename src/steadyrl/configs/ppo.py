"""Configuration of PPO (arXiv:1707.06347)."""

from __future__ import annotations

from dataclasses import dataclass

from steadyrl.configs.on_policy import OnPolicyConfig
from steadyrl.configs.schedules import Schedule
from steadyrl.configs.validate import at_least_one, positive
from steadyrl.errors import UserError


@dataclass(frozen=True, kw_only=True)
class PPOConfig(OnPolicyConfig):
    """Hyperparameters of PPO; names and defaults are Stable-Baselines3's."""

    batch_size: int = 64
    """Transitions in a minibatch."""
    n_epochs: int = 10
    """Passes over each rollout."""
    clip_range: Schedule = 0.2
    """The probability ratio is clipped to [1 - clip_range, 1 + clip_range]."""
    clip_range_vf: float | None = None
    """Values may move this far from their old ones in an update; None leaves them free."""
    target_kl: float | None = None
    """An update ends before a minibatch whose approximate KL divergence exceeds 1.5 times this; None never does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(self, "batch_size", "n_epochs")
        positive(self, "clip_range")
        for optional in ("clip_range_vf", "target_kl"):
            if getattr(self, optional) is not None:
                positive(self, optional)
        rollout = self.n_steps * self.num_envs
        if self.batch_size > rollout:
            raise UserError(
                f"batch_size {self.batch_size} exceeds n_steps * num_envs = {rollout}.",
                remedy=f"Lower batch_size to at most {rollout}, or raise n_steps or num_envs.",
                code="bad-value",
            )
        if self.normalize_advantage and rollout == 1:
            raise UserError(
                "n_steps * num_envs = 1 leaves nothing to normalise advantages over.",
                remedy="Raise n_steps or num_envs, or set normalize_advantage=False.",
                code="bad-value",
            )
