"""Presets, overrides, and errors that name the field and the nearest right one; no torch, no NumPy."""

from __future__ import annotations

from steadyrl.config.docs import field_docs
from steadyrl.config.env_kwargs import storable_kwargs, storable_wrappers, wrappers_from
from steadyrl.config.habits import HABITS
from steadyrl.config.presets import Preset, preset_for, presets
from steadyrl.config.resolve import (
    DEFAULT_TOTAL_TIMESTEPS,
    Resolved,
    check_algo,
    from_json,
    hints,
    resolve,
    to_json,
    unknown_key,
)
from steadyrl.config.values import choices, coerce, describe, encode, is_schedule, literal, parse_value

__all__ = [
    "DEFAULT_TOTAL_TIMESTEPS",
    "HABITS",
    "Preset",
    "Resolved",
    "check_algo",
    "choices",
    "coerce",
    "describe",
    "encode",
    "field_docs",
    "from_json",
    "hints",
    "is_schedule",
    "literal",
    "parse_value",
    "preset_for",
    "presets",
    "resolve",
    "storable_kwargs",
    "storable_wrappers",
    "to_json",
    "unknown_key",
    "wrappers_from",
]
