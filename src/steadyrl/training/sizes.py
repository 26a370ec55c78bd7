"""What a training would take, from its numbers alone: refused before anything is made where it cannot work."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import psutil

from steadyrl.config import encode, to_json
from steadyrl.configs import Config, DQNConfig, OffPolicyConfig, OnPolicyConfig
from steadyrl.configs.run import RunSettings
from steadyrl.data.frames import Frames
from steadyrl.data.layouts import replay_bytes
from steadyrl.data.memory import require_memory
from steadyrl.errors import UserError
from steadyrl.nn.architecture import MAX_BUNDLE, MAX_JSON, MAX_LAYERS, Architecture
from steadyrl.spaces import ActionSpec, ObsSpec
from steadyrl.training.architectures import architecture_of

MAX_ENVS = 65_536  # beyond it even the lists of small environments take longer to make than to train in
_ROOM = 64 * 1024  # bytes of a bundle's description besides spaces, hyperparameters and env_kwargs
_WEIGHT_BYTES = 16  # a float32 weight, its gradient and the optimiser's two moments
_ROW_BYTES = 5 * 4 + 3  # log-probability, value, final value, reward and advantage; three flags
_PROCESS_BYTES = 40 * 2**20  # Python, NumPy and Gymnasium in a process of its own


def check_sizes(
    config: Config, obs: ObsSpec, action: ActionSpec, *, vec: str, encoders: Mapping[str, Any] | None = None
) -> None:
    """Raises UserError for networks, rollouts or numbers of environments that this machine cannot hold."""
    architecture = architecture_of(config, encoders)
    if architecture.layers > MAX_LAYERS:
        raise _too_large(
            f"net_arch has {architecture.layers} hidden layers, but at most {MAX_LAYERS} can be saved", "Use fewer."
        )
    if config.num_envs > MAX_ENVS:
        raise _too_large(f"num_envs is {config.num_envs}, but at most {MAX_ENVS} are possible", "Use fewer.")
    weights = architecture.parameters(obs, action)
    images = any(leaf.kind == "image" for leaf in obs.leaves)
    smaller = ", smaller images (gymnasium.wrappers.ResizeObservation)" if images else ""
    cure = f"Use smaller hidden layers{smaller}, or a space with fewer values."
    shape = f"net_arch {_shown(config.net_arch)} on {_features(obs, architecture)} and {_choices(action)} outputs"
    if weights * 4 > MAX_BUNDLE - 2 * MAX_JSON:
        raise _too_large(
            f"The networks ({shape}) would have {weights:,} weights, {_gib(weights * 4)}; "
            f"a saved policy holds at most {_gib(MAX_BUNDLE)} and {_gib(_free())} of memory are free",
            cure,
        )
    _require(
        weights * _WEIGHT_BYTES,
        f"The networks ({shape}) with gradients and the optimiser",
        cure,
    )
    if isinstance(config, OnPolicyConfig):
        check_rollout(config, obs, action)
    if vec == "async":
        _require(
            config.num_envs * _PROCESS_BYTES,
            f"{config.num_envs} processes for vec='async'",
            "Lower num_envs, or use vec='sync'.",
        )


def check_rollout(config: OnPolicyConfig, obs: ObsSpec, action: ActionSpec) -> None:
    """Raises UserError for a rollout that this machine cannot hold."""
    rows = config.n_steps * config.num_envs
    _require(
        rows * (_row_bytes(obs, action) + _ROW_BYTES),
        f"A rollout of n_steps {config.n_steps} * num_envs {config.num_envs} transitions",
        "Lower n_steps or num_envs.",
    )


def check_replay(config: OffPolicyConfig, obs: ObsSpec, action: ActionSpec, frames: Frames | None) -> None:
    """Raises UserError for a replay that does not fit into this machine's memory; of one in files batches do."""
    _require(
        config.batch_size * (2 * _row_bytes(obs, action) + _ROW_BYTES),
        f"A batch of batch_size {config.batch_size} transitions",
        "Lower batch_size.",
    )
    if config.replay_dir is None:
        size = partial(replay_size, config, obs, action, frames)
        require_memory(size, config.buffer_size, num_envs=config.num_envs, limit=config.memory_limit)


def replay_size(config: OffPolicyConfig, obs: ObsSpec, action: ActionSpec, frames: Frames | None, capacity: int) -> int:
    """Bytes of a replay of so many transitions; with `frames` it keeps each frame once."""
    return replay_bytes(
        capacity,
        config.num_envs,
        obs,
        action,
        prioritized=isinstance(config, DQNConfig) and config.prioritized,
        hindsight=config.hindsight != "none",
        frames=frames,
    )


def check_description(settings: RunSettings, config: Config, obs: ObsSpec, action: ActionSpec) -> None:
    """Raises UserError for names or spaces that a run folder or the description in a bundle cannot hold."""
    for what, name in (
        ("name of the environment", settings.env),
        ("name of the run", settings.name or ""),
        *(("name of the observation's part", path) for path in obs.by_path),
        *(("text of the characters", leaf.characters) for leaf in obs.leaves),
    ):
        try:
            name.encode()
        except UnicodeEncodeError:
            raise UserError(
                f"The {what} is {name!r}, which is no Unicode and cannot be saved.",
                remedy="Leave halves of surrogate pairs out.",
                code="bad-value",
            ) from None
    document = {
        "obs": obs.to_json(),
        "action": action.to_json(),
        "config": to_json(config),
        "env": settings.env,
        "env_kwargs": encode(settings.env_kwargs),
    }
    size = len(json.dumps(document, indent=4))  # deeper in the bundle, where each level takes one space
    if size > MAX_JSON - _ROOM:
        raise _too_large(
            f"The description of the spaces takes {size:,} bytes, but at most {MAX_JSON - _ROOM:,} can be saved",
            "Use spaces with fewer entries, or one Box instead of many parts.",
        )


def _row_bytes(obs: ObsSpec, action: ActionSpec) -> int:
    stored = sum(math.prod(leaf.stored_shape) * np.dtype(leaf.stored_dtype).itemsize for leaf in obs.leaves)
    return stored + action.size * np.dtype(action.stored_dtype).itemsize


def _require(size: int, what: str, remedy: str) -> None:
    free = _free()
    if size > free:
        raise _too_large(f"{what} would take {_gib(size)} of memory, but {_gib(free)} are free", remedy)


def _free() -> int:
    return int(psutil.virtual_memory().available)


def _too_large(message: str, remedy: str) -> UserError:
    return UserError(f"{message}.", remedy=remedy, code="too-large")


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"


def _features(obs: ObsSpec, architecture: Architecture) -> str:
    encoding = architecture.encoding()
    weights = sum(map(encoding.weights, obs.leaves))
    made = f", made by {weights:,} weights," if weights else ""
    return f"{sum(map(encoding.width, obs.leaves)):,} inputs{made}"


def _choices(action: ActionSpec) -> str:
    return f"{sum(action.nvec) if action.kind in ('discrete', 'multidiscrete') else action.size:,}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
