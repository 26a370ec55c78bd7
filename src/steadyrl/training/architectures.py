"""From a configuration to what makes its networks; no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from steadyrl.configs import Config, DQNConfig, OnPolicyConfig, SACConfig, TD3Config
from steadyrl.nn.architecture import Architecture


def architecture_of(config: Config, encoders: Mapping[str, Any] | None = None) -> Architecture:
    """What makes the network of this configuration, with classes of own encoders by path."""
    made = _of_algorithm(config)
    shared = config.share_features_extractor if isinstance(config, OnPolicyConfig) else True
    return replace(
        made,
        cnn=config.cnn,
        embed_above=config.embed_above,
        share_features_extractor=shared,
        encoders=class_names(encoders or {}),
    )


def class_names(encoders: Mapping[str, Any]) -> dict[str, str]:
    """Classes by path as their names, which a file can hold."""
    return {path: f"{kind.__module__}.{kind.__qualname__}" for path, kind in encoders.items()}


def _of_algorithm(config: Config) -> Architecture:
    if isinstance(config, OnPolicyConfig):
        return Architecture(
            _layers(config.net_arch, ("pi", "vf")),
            config.activation_fn,
            config.log_std_init,
            config.squash_output,
            config.use_sde,
            layer_norm=config.layer_norm,
            recurrent=config.recurrent,
            recurrent_size=config.recurrent_size if config.recurrent != "none" else 0,
            recurrent_shared=config.recurrent_shared and config.recurrent != "none",
        )
    layers = _layers(config.net_arch, config.networks)
    if isinstance(config, DQNConfig):
        return Architecture(
            layers,
            config.activation_fn,
            family="dqn",
            dueling=config.dueling,
            head=config.head,
            outputs={"mean": 1, "c51": config.n_atoms, "quantile": config.n_quantiles}[config.head],
            v_min=config.v_min,
            v_max=config.v_max,
            epsilon=config.exploration_final_eps,
            layer_norm=config.layer_norm,
        )
    if isinstance(config, SACConfig):
        return Architecture(
            layers,
            config.activation_fn,
            config.log_std_init,
            use_sde=config.use_sde,
            family="sac",
            n_critics=config.n_critics,
            layer_norm=config.layer_norm,
        )
    assert isinstance(config, TD3Config)
    return Architecture(
        layers, config.activation_fn, family="td3", n_critics=config.n_critics, layer_norm=config.layer_norm
    )


def _layers(
    arch: tuple[int, ...] | dict[str, tuple[int, ...]], networks: tuple[str, ...]
) -> dict[str, tuple[int, ...]]:
    return {name: tuple(arch[name] if isinstance(arch, dict) else arch) for name in networks}
