"""What DQN, DDPG, TD3 and SAC have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from steadyrl.configs.on_policy import ImageLayouts
from steadyrl.configs.schedules import Schedule
from steadyrl.configs.validate import (
    at_least_one,
    fail,
    in_range,
    layer_sizes,
    not_negative,
    not_negative_whole,
    positive,
)


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig:
    """Hyperparameters of an algorithm with a replay buffer; names and defaults are Stable-Baselines3's."""

    num_envs: int = 1
    """Environments stepped side by side (N)."""
    learning_rate: Schedule = 3e-4
    """Step size of the optimisers."""
    buffer_size: int = 1_000_000
    """Transitions that the replay buffer holds."""
    learning_starts: int = 100
    """Environment steps with random actions before the first update."""
    batch_size: int = 256
    """Transitions in a minibatch."""
    tau: float = 0.005
    """Target networks move this share of the way to the online ones (1 copies them)."""
    gamma: float = 0.99
    """Discount factor."""
    train_freq: int = 1
    """Environment steps, of all environments together, between two updates."""
    gradient_steps: int = 1
    """Minibatches of an update; -1 makes as many as there were environment steps since the last one."""
    n_step: int = 1
    """Rewards that a target sums before it bootstraps (Sutton & Barto, chapter 7)."""
    normalize_obs: bool = False
    """Observations are standardised by a running mean and variance that belongs to the policy."""
    net_arch: tuple[int, ...] | dict[str, tuple[int, ...]] = (256, 256)
    """Hidden layers of every network, or {'pi': (256, 256), 'qf': (256, 256)}."""
    activation_fn: Literal["tanh", "relu", "elu", "silu"] = "relu"
    """Activation of the hidden layers."""
    layer_norm: bool = False
    """Every hidden layer is normalised (arXiv:1607.06450) before its activation, in all networks."""
    cnn: Literal["nature", "impala", "none"] = "nature"
    """Network of images: the Nature DQN's (a smaller one below 36 pixels), IMPALA's ResNet, or none: flattened."""
    image_layout: ImageLayouts = "auto"
    """Whether channels of images come last (hwc) or first (chw); auto tells by the shape. Or {'camera': 'chw'}."""
    sequence_length: int = 128
    """Entries kept of a Sequence, and of a text whose space does not say its length; a longer one is an error."""
    embed_above: int = 1024
    """Integers and characters of more values than this become learnt vectors, others one-hot; 0 embeds none."""
    hindsight: Literal["none", "future", "final", "episode"] = "none"
    """Hindsight experience replay for goal environments (arXiv:1707.01495): whence substitute goals come."""
    n_sampled_goal: int = 4
    """Hindsight: substitute goals for each real one."""
    replay_dir: str | None = None
    """A folder in which each training, a resumed one too, keeps its replay buffer in files of its own, mapped from the
    disk, instead of in memory; they stay when it ends, and are yours to remove."""
    replay_frames: Literal["auto", "on", "off"] = "auto"
    """Whether the replay keeps each frame of stacked pictures once; auto where frame_stack stacks uint8."""
    memory_limit: str | None = None
    """Largest replay buffer, such as 8GB or 0.5 of the free memory; None is 0.7 of it."""
    log_interval: int = 1000
    """Environment steps between two rows of metrics."""

    @property
    def networks(self) -> tuple[str, ...]:
        """Keys of `net_arch` where each network has sizes of its own."""
        return ("pi", "qf")

    def __post_init__(self) -> None:
        at_least_one(
            self, "num_envs", "buffer_size", "batch_size", "train_freq", "n_step", "n_sampled_goal", "log_interval"
        )
        positive(self, "learning_rate", "tau")
        in_range(self, 0.0, 1.0, "gamma", "tau")
        not_negative(self, "learning_starts")
        if self.hindsight != "none" and self.n_step != 1:
            raise fail(self, "n_step", "1 where hindsight is used")
        if self.n_step > 1 and self.buffer_size < self.n_step * self.num_envs:
            raise fail(self, "buffer_size", f"at least n_step * num_envs = {self.n_step * self.num_envs}")
        layer_sizes(self, "net_arch", self.networks)
        at_least_one(self, "sequence_length")
        not_negative_whole(self, "embed_above")
        if self.gradient_steps < 1 and self.gradient_steps != -1:
            raise fail(self, "gradient_steps", "-1 or a whole number of at least 1")


@dataclass(frozen=True, kw_only=True)
class ActorCriticOffPolicyConfig(OffPolicyConfig):
    """What the off-policy algorithms for continuous actions have in common."""

    action_noise_type: Literal["none", "normal", "ornstein-uhlenbeck"] = "none"
    """Noise added to actions while training, per environment and per dimension."""
    action_noise_std: Schedule = 0.1
    """Its standard deviation, in [-1, 1] space."""

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, "action_noise_std")
