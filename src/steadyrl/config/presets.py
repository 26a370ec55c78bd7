"""Tuned settings per algorithm and environment, from `presets/<algorithm>.toml`."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steadyrl.config.values import coerce
from steadyrl.configs import CONFIGS
from steadyrl.errors import UserError

_FOLDER = Path(__file__).parent.parent / "presets"


@dataclass(frozen=True)
class Preset:
    """Settings for one algorithm on one environment.

    Attributes:
        name: The environment's id.
        source: Where the settings come from, and what was adapted.
        total_timesteps: Environment steps that they were tuned for.
        values: Hyperparameters, as the file has them.
    """

    name: str
    source: str
    total_timesteps: int | None
    values: Mapping[str, Any]


@functools.cache
def presets(algo: str) -> Mapping[str, Preset]:
    """Every preset of an algorithm, by environment id."""
    path = _FOLDER / f"{algo}.toml"
    if algo not in CONFIGS or not path.is_file():
        return {}
    with path.open("rb") as file:
        tables = tomllib.load(file)
    return {name: _preset(path, name, table) for name, table in tables.items()}


def preset_for(algo: str, env_id: str | None) -> Preset | None:
    """The preset of exactly this environment version; `module:Id-v0` is looked up as `Id-v0`."""
    return presets(algo).get(env_id.rpartition(":")[2]) if env_id else None


def _preset(path: Path, name: str, table: Mapping[str, Any]) -> Preset:
    values = dict(table)
    source = values.pop("source", None)
    if not isinstance(source, str):
        raise UserError(f"Preset {name} in {path.name} names no source.", remedy="Add source = '...' to it.")
    total = coerce(values.pop("total_timesteps", None), int | None, "total_timesteps")
    return Preset(name, source, total, values)
