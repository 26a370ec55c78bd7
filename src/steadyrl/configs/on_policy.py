"""What PPO and A2C have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from steadyrl.configs.schedules import Schedule
from steadyrl.configs.validate import (
    at_least_one,
    in_range,
    layer_sizes,
    not_negative,
    not_negative_whole,
    positive,
)

ImageLayouts = Literal["auto", "hwc", "chw"] | dict[str, Literal["hwc", "chw"]]


@dataclass(frozen=True, kw_only=True)
class OnPolicyConfig:
    """Hyperparameters of an on-policy actor-critic; names and defaults are Stable-Baselines3's."""

    num_envs: int = 1
    """Environments stepped side by side (N)."""
    n_steps: int = 2048
    """Steps of each environment in a rollout (T); a rollout holds n_steps * num_envs transitions."""
    learning_rate: Schedule = 3e-4
    """Step size of the optimiser."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """Trade-off of bias and variance in generalised advantage estimation (arXiv:1506.02438)."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus in the loss."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Gradients are scaled down to this norm; 0 leaves them alone."""
    normalize_advantage: bool = True
    """Advantages are given mean 0 and standard deviation 1 in each minibatch."""
    normalize_obs: bool = False
    """Observations are standardised by a running mean and variance that belongs to the policy."""
    normalize_reward: bool = False
    """Training rewards are divided by the running standard deviation of the discounted return."""
    net_arch: tuple[int, ...] | dict[str, tuple[int, ...]] = (64, 64)
    """Hidden layers of both networks, or {'pi': (64, 64), 'vf': (64, 64)}."""
    activation_fn: Literal["tanh", "relu", "elu", "silu"] = "tanh"
    """Activation of the hidden layers."""
    layer_norm: bool = False
    """Every hidden layer is normalised (arXiv:1607.06450) before its activation, in all networks."""
    recurrent: Literal["none", "lstm", "gru"] = "none"
    """A memory before the hidden layers, an LSTM or GRU, for observations that do not tell everything at once."""
    recurrent_size: int = 256
    """Width of the memory."""
    recurrent_shared: bool = False
    """Policy and value network share one memory, which both train; otherwise each has its own, as in sb3-contrib."""
    ortho_init: bool = True
    """Orthogonal initial weights (gain sqrt 2; 0.01 for the policy's head, 1 for the value's)."""
    log_std_init: float = 0.0
    """Initial logarithm of the standard deviation of a continuous action, in [-1, 1] space."""
    squash_output: bool = False
    """Continuous actions go through tanh instead of being clipped."""
    use_sde: bool = False
    """State-dependent exploration (gSDE, arXiv:2005.05719) for continuous actions."""
    sde_sample_freq: int = -1
    """gSDE: steps of an environment between two draws of its exploration matrix; -1 draws once a rollout."""
    cnn: Literal["nature", "impala", "none"] = "nature"
    """Network of images: the Nature DQN's (a smaller one below 36 pixels), IMPALA's ResNet, or none: flattened."""
    image_layout: ImageLayouts = "auto"
    """Whether channels of images come last (hwc) or first (chw); auto tells by the shape. Or {'camera': 'chw'}."""
    sequence_length: int = 128
    """Entries kept of a Sequence, and of a text whose space does not say its length; a longer one is an error."""
    embed_above: int = 1024
    """Integers and characters of more values than this become learnt vectors, others one-hot; 0 embeds none."""
    share_features_extractor: bool = True
    """Policy and value network have one encoder of images, embeddings and sequences, or one each."""
    log_interval: int = 1
    """Updates between two rows of metrics."""

    def __post_init__(self) -> None:
        at_least_one(self, "num_envs", "n_steps", "log_interval")
        positive(self, "learning_rate")
        in_range(self, 0.0, 1.0, "gamma", "gae_lambda")
        not_negative(self, "ent_coef", "vf_coef", "max_grad_norm")
        in_range(self, -20.0, 20.0, "log_std_init")
        layer_sizes(self, "net_arch")
        at_least_one(self, "sequence_length", "recurrent_size")
        not_negative_whole(self, "embed_above")
        if self.sde_sample_freq != -1:
            at_least_one(self, "sde_sample_freq")
