"""What a user should know of a configuration before the training starts."""

from __future__ import annotations

import dataclasses

from steadyrl.config import Resolved
from steadyrl.configs import Config, OffPolicyConfig, OnPolicyConfig, PPOConfig
from steadyrl.configs.run import RunSettings
from steadyrl.training.events import Notice

_DETERMINISTIC = (
    "Deterministic: on a GPU PyTorch takes only operations that repeat, which are slower, and cuBLAS about 24 MiB more "
    "of its memory; on a CPU nothing changes."
)

_MODES: tuple[tuple[str, tuple[bool | str, ...], tuple[str, ...]], ...] = (
    ("prioritized", (True,), ("prioritized_alpha", "prioritized_beta")),
    ("head", ("c51",), ("n_atoms", "v_min", "v_max")),
    ("head", ("quantile",), ("n_quantiles",)),
    ("hindsight", ("future", "final", "episode"), ("n_sampled_goal",)),
    ("recurrent", ("lstm", "gru"), ("recurrent_size", "recurrent_shared")),
    ("use_sde", (True,), ("sde_sample_freq",)),
    ("action_noise_type", ("normal", "ornstein-uhlenbeck"), ("action_noise_std",)),
)
"""A field, and the values of it without which other fields have no effect."""


def notices_of(resolved: Resolved, settings: RunSettings) -> list[Notice]:
    """What follows from the configuration alone."""
    notices = [Notice("config", note) for note in resolved.notes]
    if settings.deterministic:
        notices.append(Notice("deterministic", _DETERMINISTIC))
    if resolved.preset:
        text = f"Preset {resolved.preset} for {resolved.algo.upper()} (source: {resolved.preset_source})."
        notices.append(Notice("preset", text))
    notices += _idle_notices(resolved)
    if isinstance(resolved.config, OnPolicyConfig):
        notices += _rollout_notices(resolved, resolved.config)
    elif isinstance(resolved.config, OffPolicyConfig):
        notices += _start_notices(resolved.config.learning_starts, resolved.total_timesteps)
    return notices


def _rollout_notices(resolved: Resolved, config: OnPolicyConfig) -> list[Notice]:
    """What does not go into whole minibatches or rollouts."""
    notices, rollout, total = [], config.n_steps * config.num_envs, resolved.total_timesteps
    if isinstance(config, PPOConfig) and config.recurrent != "none":
        notices += _sequence_notices(config)
    elif isinstance(config, PPOConfig) and rollout % config.batch_size:
        rest = rollout % config.batch_size
        alone = ", whose single advantage is not normalised" if rest == 1 and config.normalize_advantage else ""
        notices.append(
            Notice(
                "remainder",
                f"A rollout of {rollout} makes {rollout // config.batch_size} minibatches of {config.batch_size} "
                f"and a smaller one of {rest}{alone}.",
            )
        )
    if resolved.sources["total_timesteps"] == "explicit" and total < 2 * rollout:
        updates = -(-total // rollout)
        notices.append(
            Notice(
                "config",
                f"{total} steps make {updates} update{'s' if updates > 1 else ''} of the networks, "
                f"one for each {rollout} (n_steps * num_envs): lower n_steps for more.",
            )
        )
    return notices


def _idle_notices(resolved: Resolved) -> list[Notice]:
    """Which of the user's values have no effect, as what they belong to is not used."""
    notices, config = [], resolved.config
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    for mode, values, fields in _MODES:
        if getattr(config, mode, values[0]) in values:
            continue
        # A run that is made again has each value explicitly.
        changed = [name for name in fields if getattr(config, name) != defaults[name]]
        idle = [name for name in changed if resolved.sources[name] == "explicit"]
        if idle:
            what = mode if values == (True,) else f"{mode} {' or '.join(map(str, values))}"
            have = "has" if len(idle) == 1 else "have"
            notices.append(Notice("no-effect", f"{' and '.join(idle)} {have} no effect without {what}."))
    return notices


def _start_notices(starts: int, total: int) -> list[Notice]:
    """That no update is made, where the run ends before the first one."""
    if starts < total:
        return []
    text = f"learning_starts {starts} is not below total_timesteps {total}: nothing is learnt"
    return [Notice("no-updates", f"{text}. Lower learning_starts (--learning-starts) or train longer.")]


def unlearnt(config: Config, updates: int) -> Notice | None:
    """What is said of an agent that has not begun to learn."""
    if updates or not isinstance(config, OffPolicyConfig):
        return None
    return Notice(
        "no-updates", f"No update yet: learning begins after {config.learning_starts} steps (learning_starts)."
    )


def _sequence_notices(config: PPOConfig) -> list[Notice]:
    """What minibatches of whole sequences come to, where that is not what was asked for."""
    each, steps = max(1, config.batch_size // config.n_steps), config.n_steps
    rest = config.num_envs % each
    if each * steps == config.batch_size and not rest:
        return []
    text = f"A recurrent policy learns from whole sequences: a minibatch has {each} of {steps} steps"
    last = f", and the last one of each epoch {rest}" if rest else ""
    return [Notice("sequences", f"{text}{last} (batch_size is {config.batch_size}).")]
