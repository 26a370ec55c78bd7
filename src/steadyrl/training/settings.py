"""Settings of a run as a user gives them: which names they have, and how they are read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from steadyrl.config import coerce, hints, storable_kwargs, storable_wrappers, unknown_key
from steadyrl.configs.run import RunSettings

SETTINGS = {field.name for field in dataclasses.fields(RunSettings)}
_READS = {"env_kwargs": storable_kwargs, "wrappers": storable_wrappers}


def read_settings(given: Mapping[str, Any]) -> RunSettings:
    """The settings with these names and values; None leaves the default.

    Raises:
        UserError: a value is of the wrong type or out of range.
    """
    known = get_type_hints(RunSettings)
    values: dict[str, Any] = {}
    for name, value in given.items():
        if value is None and name != "env":
            continue
        if name in _READS:
            values[name] = _READS[name](value)
        else:
            values[name] = coerce(value, Path if name == "run_dir" else known[name], name)
    return RunSettings(**values)


def fields_of(settings: RunSettings) -> dict[str, Any]:
    """The values by name, as they are."""
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}


def require_known(algo: str, overrides: Mapping[str, Any]) -> None:
    """Raises UserError for a name that is neither a hyperparameter nor a setting; it suggests one of either."""
    known = hints(algo)
    for name in overrides:
        plain = name.replace("-", "_")
        if plain not in known and plain.removesuffix("_end") not in known:
            raise unknown_key(algo, name, {*known, *SETTINGS})
